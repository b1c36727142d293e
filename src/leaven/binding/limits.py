"""How far `let`s and repetitions may expand.

`lets.py` refuses a `let` that is too large on its own, before anything expands it; `Scope.can_expand` counts what is
expanded, in pipelines, selectors, lists and calculations alike.
"""

MAX_PARTS = 10_000  # of one value, with every `let` in it written out
MAX_TOTAL = 50_000  # of all expansions in a recipe: a `let` may be used often
MAX_LETS = 100  # that refer to each other in a row; keeps every later walk off Python's stack limit
MAX_DEPTH = 400  # of parts in parts, counting what a walk over them puts on Python's stack
MAX_NESTING = 90  # of brackets, a few less than a recipe may have: `show` writes expanded values inside of blocks
