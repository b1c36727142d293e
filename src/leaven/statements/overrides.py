"""Overrides of parts that have a statement of their own, as that statement.

`override build_model, mine.net` means `model mine.net(head=keep)`, `override loss, mine.loss` means `loss mine.loss`:
they are checked, planned and emitted alike. Overrides of what happens in the loop have no such statement and stay as
they are.
"""

from collections.abc import Sequence
from dataclasses import replace

from leaven.catalog.statement_keys import BodyStatement, body
from leaven.language import syntax

_STATEMENTS = {"build_model": "model", "build_data": "data", "loss": "loss", "optimizer": "optimizer"}


def replace_overridden(statements: Sequence[BodyStatement]) -> list[BodyStatement]:
    """The statements, with overrides in the places of those that they replace, whose blocks they keep."""
    replaced = [_with_block(statement) for statement in statements]
    for override in list(replaced):
        meant = _as_statement(override)
        if meant is not None:
            earlier = [s for s in replaced if isinstance(s, syntax.Statement) and s.name == meant.name]
            meant = replace(meant, block=earlier[-1].block if earlier else None)
            kept = [s for s in replaced if not any(s is other for other in earlier)]
            replaced = [meant if statement is override else statement for statement in kept]
    return replaced


def _with_block(statement: BodyStatement) -> BodyStatement:
    if not isinstance(statement, syntax.Statement) or statement.block is None or statement.name.path != "phase":
        return statement
    inner = body(statement.block.statements)
    if not any(map(_as_statement, inner)):
        return statement
    return replace(statement, block=replace(statement.block, statements=tuple(replace_overridden(inner))))


def _as_statement(override: BodyStatement) -> syntax.Statement | None:
    """The statement that says the same as an override; None for all else, and where its arguments are wrong."""
    if not isinstance(override, syntax.Statement) or override.name.path != "override" or override.block is not None:
        return None
    match tuple(argument.keyword.path if argument.keyword else None for argument in override.arguments):
        case (None, None | "function") | ("hook", "function"):
            hook, function = override.arguments
        case ("function", "hook"):
            function, hook = override.arguments
        case _:
            return None
    if not isinstance(hook.value, syntax.Name) or not isinstance(function.value, syntax.Name):
        return None
    name, place = _STATEMENTS.get(hook.value.path), function.span
    if name is None:
        return None
    keeps_head = syntax.Argument(syntax.Name("head", place), syntax.Name("keep", place), place)
    call = syntax.Call(function.value, (keeps_head,) if name == "model" else (), place)
    return syntax.Statement(syntax.Name(name, hook.span), (syntax.Argument(None, call, place),), None, override.span)
