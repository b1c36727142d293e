"""Overrides of parts that have a statement of their own, as that statement.

`override build_model, mine.net` says what `model mine.net(head=keep)` says, and `override loss, mine.loss` what
`loss mine.loss` says: so they are checked, planned and written alike. Overrides of what happens in the loop have no
such statement and stay what they are.
"""

from collections.abc import Sequence
from dataclasses import replace

from leaven.language import syntax
from leaven.statements.statement_keys import Plain

_STATEMENTS = {"build_model": "model", "build_data": "data", "loss": "loss", "optimizer": "optimizer"}


def replace_overridden(statements: Sequence[Plain]) -> list[Plain]:
    """The statements, with overrides in the places of those that they stand for. Of these, blocks stay."""
    found = [_with_block(statement) for statement in statements]
    for override in [statement for statement in found if _part(statement)]:
        assert isinstance(override, syntax.Statement)
        name = _STATEMENTS[_part(override)]
        earlier = [one for one in found if isinstance(one, syntax.Statement) and one.name.path == name]
        meant = _as_statement(override, name, earlier[-1].block if earlier else None)
        found = [meant if one is override else one for one in found if not any(one is other for other in earlier)]
    return found


def _with_block(statement: Plain) -> Plain:
    if not isinstance(statement, syntax.Statement) or statement.block is None or statement.name.path != "phase":
        return statement
    inner = statement.block.statements
    plain = [one for one in inner if isinstance(one, syntax.Statement | syntax.Broken)]
    if not any(_part(one) for one in plain):
        return statement
    return replace(statement, block=replace(statement.block, statements=tuple(replace_overridden(plain))))


def _part(statement: Plain) -> str:
    """The part that an override stands for; empty for all else."""
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
