"""The identity of statements: card, key, label. Two statements with the same key say the same thing.

Which of the two counts is left to `statements/merge.py`.
"""

from collections.abc import Iterable

from leaven.catalog import own
from leaven.catalog.card import Card
from leaven.language import syntax

BodyStatement = syntax.Statement | syntax.Broken  # any but those that define a name or extend a recipe
Key = tuple[str, ...]

BLOCK_OWNERS = ("data", "optimizer")  # whose blocks have statements of their own; a phase's are the recipe's
EDITS = ("change", "drop")


def key_of(statement: BodyStatement) -> Key:
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
    """Whether the first argument of a statement is part of its key, as the name of a phase is."""
    card = own.read("statement", name)
    return card is not None and bool(card.statement.key)


def is_edit(statement: BodyStatement) -> bool:
    return statement.name is not None and statement.name.path in EDITS


def statement_card(name: str, owner: str = "") -> Card | None:
    """The card of a statement or technique at the top of a recipe, or of a statement in its owner's block."""
    if owner in BLOCK_OWNERS:
        return own.read("statement", f"{owner}.{name}")
    return own.read("statement", name) or own.read("technique", name)


def block_names(owner: str) -> list[str]:
    """The statements that the block of `data` or `optimizer` takes."""
    return [name.partition(".")[2] for name in own.names("statement") if name.startswith(f"{owner}.")]


def body(statements: Iterable[syntax.AnyStatement]) -> list[BodyStatement]:
    """The statements without those that define a name."""
    return [statement for statement in statements if isinstance(statement, syntax.Statement | syntax.Broken)]


def labels_of(name: str, statements: Iterable[BodyStatement]) -> list[str]:
    """The labels of all statements of that name."""
    keys = (key_of(statement) for statement in statements)
    return list(dict.fromkeys(key[1] for key in keys if key[0] == name and len(key) > 1))


def phases_with(name: str, statements: Iterable[BodyStatement]) -> list[str]:
    """The phases that have a statement of that name of their own."""
    return [
        key_of(phase)[-1]
        for phase in statements
        if phase.name is not None and phase.name.path == "phase" and phase.block is not None
        if any(s.name is not None and s.name.path == name and not is_edit(s) for s in body(phase.block.statements))
    ]
