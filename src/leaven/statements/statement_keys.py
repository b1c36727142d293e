"""What a statement is known by. Two with the same key say the same thing anew.

Which of the two stands is left to `merging.py`.
"""

from leaven.catalog import own
from leaven.catalog.card import Card
from leaven.language import syntax

Plain = syntax.Statement | syntax.Broken
Key = tuple[str, ...]

BLOCK_OWNERS = ("data", "optimizer")  # whose blocks hold statements of their own; a phase's are the recipe's

EDITS = ("change", "drop")


def key_of(statement: Plain) -> Key:
    """The name of a statement and, where its card says so, its label: `phase` and `head`."""
    if statement.name is None:
        return ("",)
    name = statement.name.path
    if isinstance(statement, syntax.Broken) or not statement.arguments or not has_label(name):
        return (name,)
    match statement.arguments[0].value:
        case syntax.String(value=label) | syntax.Name(path=label) | syntax.Call(name=syntax.Name(path=label)):
            return (name, label)
    return (name,)


def has_label(name: str) -> bool:
    """Whether the first argument of a statement is part of what it is known by, as the name of a phase is."""
    card = own.read("statement", name)
    return card is not None and "key" in card.facts


def is_edit(statement: Plain) -> bool:
    return statement.name is not None and statement.name.path in EDITS


def statement_card(name: str, owner: str = "") -> Card | None:
    """The card of a statement or technique at the top of a recipe, or of a statement in its owner's block."""
    if owner in BLOCK_OWNERS:
        return own.read("statement", f"{owner}.{name}")
    return own.read("statement", name) or own.read("technique", name)


def plain(statements: tuple[syntax.AnyStatement, ...]) -> list[Plain]:
    """The statements of a block without what only introduces a name."""
    return [statement for statement in statements if isinstance(statement, syntax.Statement | syntax.Broken)]
