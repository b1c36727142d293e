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
    found = [_with_block(statement) for statement in statements]
    for override in [statement for statement in found if _part(statement)]:
        assert isinstance(override, syntax.Statement)
        name = _STATEMENTS[_part(override)]
        earlier = [one for one in found if isinstance(one, syntax.Statement) and one.name.path == name]
        meant = _as_statement(override, name, earlier[-1].block if earlier else None)
        found = [meant if one is override else one for one in found if not any(one is other for other in earlier)]
    return found


def _with_block(statement: BodyStatement) -> BodyStatement:
    if not isinstance(statement, syntax.Statement) or statement.block is None or statement.name.path != "phase":
        return statement
    inner = body(statement.block.statements)
    if not any(_part(one) for one in inner):
        return statement
    return replace(statement, block=replace(statement.block, statements=tuple(replace_overridden(inner))))


def _part(statement: BodyStatement) -> str:
    """The part that an override replaces, if a statement of its own says the same; empty for all else."""
    if not isinstance(statement, syntax.Statement) or statement.name.path != "override" or statement.block is not None:
        return ""
    match statement.arguments:
        case (
            syntax.Argument(keyword=None, value=syntax.Name(path=part)),
            syntax.Argument(keyword=None, value=syntax.Name()),
        ) if part in _STATEMENTS:
            return part
    return ""


def _as_statement(override: syntax.Statement, name: str, block: syntax.Block | None) -> syntax.Statement:
    hook, function = override.arguments
    assert isinstance(function.value, syntax.Name)
    more: tuple[syntax.Argument, ...] = ()
    if name == "model":  # it is whole as the function gives it
        place = function.span
        more = (syntax.Argument(syntax.Name("head", place), syntax.Name("keep", place), place),)
    call = syntax.Call(function.value, more, function.span)
    return syntax.Statement(syntax.Name(name, hook.span), (replace(function, value=call),), block, override.span)
