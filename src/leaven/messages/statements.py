"""Reports about statements: unknown, misplaced, repeated, with a block where none belongs."""

from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Spot, error


def definition_in_block(statement: syntax.AnyStatement) -> Diagnostic:
    """`let`, `arg`, `import` or `extends` in a block."""
    return error(
        "misplaced-statement",
        f"`{statement.span.text.split()[0]}` can't be used in a block",
        Spot(statement.span, "belongs at the top of the recipe"),
        fix="move this line out of the block, above it",
    )
