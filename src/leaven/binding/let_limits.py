"""How large `let`s become when they are unfolded into each other.

A few lines can stand for more than fits into memory (`let b = [a, a]`, `let c = [b, b]`, …) or on Python's stack. What
would, is refused here, before anything is unfolded; circles are refused before that, in `names.py`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from leaven.binding.scope import Scope
from leaven.language import syntax
from leaven.language.diagnostics import Spot

MAX_PIECES = 10_000
MAX_DEPTH = 400  # of parts in parts, counting what a walk over them puts on Python's stack
MAX_NESTING = 90  # of brackets, a few less than a recipe may have: `show` writes unfolded values inside of blocks
_LET = 2  # what a `let` adds to the depth


class _Size(NamedTuple):
    pieces: int
    depth: int
    nesting: int


def refuse_large_lets(scope: Scope) -> None:
    """Report every `let` that becomes too large; what uses it is not mentioned again."""
    sizes: dict[str, _Size] = {}
    for name in list(scope.lets):
        _measure(name, scope, sizes)
    for name in scope.broken_names & set(scope.lets):
        del scope.lets[name]


def _measure(name: str, scope: Scope, sizes: dict[str, _Size]) -> _Size:
    if name in sizes:
        return sizes[name]
    sizes[name] = _Size(1, 1, 0)  # what it counts for where it is too large, or where the name means something else
    pieces = depth = nesting = 0
    waiting = [(scope.lets[name].value, 1, 0)]
    while waiting:
        value, above, around = waiting.pop()
        inner = _Size(1, 0, 0)
        if isinstance(value, syntax.Name) and value.path in scope.lets:
            inner = _measure(value.path, scope, sizes)
            above += _LET
            if value.path in scope.broken_names:
                scope.broken_names.add(name)
                return sizes[name]
        pieces += inner.pieces
        depth, nesting = max(depth, above + inner.depth), max(nesting, around + inner.nesting)
        waiting += [(part, above + 1, around + is_bracketed) for part, is_bracketed in _parts(value)]
    found = _Size(pieces, depth, nesting)
    if not _is_refused(name, found, scope):
        sizes[name] = found
    return sizes[name]


def _parts(value: syntax.Value) -> Iterator[tuple[syntax.Value, bool]]:
    """The parts of a value, and whether brackets may stand around them."""
    match value:
        case syntax.Binary(left=left, right=right):
            yield left, False
            yield right, not isinstance(right, syntax.Number | syntax.String | syntax.Literal)
        case syntax.Negative(value=inner):
            yield inner, True
        case syntax.Pipeline(stages=parts):
            yield from ((part, False) for part in parts)
        case syntax.List(items=parts):
            yield from ((part, True) for part in parts)
        case syntax.Call(arguments=arguments):
            yield from ((argument.value, True) for argument in arguments)


def _is_refused(name: str, size: _Size, scope: Scope) -> bool:
    if size.pieces > MAX_PIECES:
        id, what = "too-large", f"stands for more than {MAX_PIECES:,} pieces"
    elif size.depth > MAX_DEPTH or size.nesting > MAX_NESTING:
        id, what = "too-deep", "stands for values that are too deep in each other"
    else:
        return False
    scope.broken_names.add(name)
    scope.report(
        id,
        f"`{name}` {what}",
        Spot(scope.lets[name].name.span, "with all that it names written out"),
        fix="name fewer `let`s in it",
    )
    return True
