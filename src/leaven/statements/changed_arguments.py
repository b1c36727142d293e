"""Statements and calls with some of their arguments replaced, as `change` and `--set` ask for."""

from collections.abc import Sequence
from dataclasses import replace

from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.language import syntax


def changed_statement(
    statement: syntax.Statement, edits: Sequence[syntax.Statement], card: Card | None
) -> syntax.Statement:
    """A statement with the arguments of its `change`s: its own, or else those of its call."""
    parameters = card.parameters if card else ()
    call_at, kind = _first_call(statement.arguments, parameters)
    own = {parameter.name for parameter in parameters}
    inner: list[syntax.Argument] = []
    outer: list[syntax.Argument] = []
    for change in (argument for edit in edits for argument in edit.arguments if argument.keyword is not None):
        is_own = call_at is None or (change.keyword is not None and change.keyword.path in own)
        (outer if is_own else inner).append(change)
    arguments = list(statement.arguments)
    if call_at is not None and inner:
        changed = with_changes(arguments[call_at].value, inner, kind)
        arguments[call_at] = replace(arguments[call_at], value=changed)
    return replace(statement, arguments=_with_arguments(arguments, outer, parameters))


def _first_call(arguments: Sequence[syntax.Argument], parameters: Sequence[Parameter]) -> tuple[int | None, str]:
    """The position of the first call among the arguments, and the kind of card that it names."""
    for at, argument in enumerate(arguments):
        if argument.keyword is not None:
            takes = [parameter for parameter in parameters if parameter.name == argument.keyword.path]
        else:
            takes = list(parameters[at : at + 1])
        kind = takes[0].types[0].replace("transforms", "transform") if takes else ""
        is_name = isinstance(argument.value, syntax.Name) and (kind in KINDS or not takes)
        if isinstance(argument.value, syntax.Call) or is_name:
            return at, kind
    return None, ""


def with_changes(value: syntax.Value, changes: Sequence[syntax.Argument], kind: str = "") -> syntax.Value:
    """A call with some of its arguments replaced, or a name made a call; any other value stays as it is."""
    if isinstance(value, syntax.Name):
        value = syntax.Call(value, (), value.span)
    if not isinstance(value, syntax.Call):
        return value
    cards = lookup.find(kind, value.name.path) if kind in KINDS else ()
    return replace(value, arguments=_with_arguments(value.arguments, changes, cards[0].parameters if cards else ()))


def _with_arguments(
    arguments: Sequence[syntax.Argument], changes: Sequence[syntax.Argument], parameters: Sequence[Parameter]
) -> tuple[syntax.Argument, ...]:
    """The arguments with some of them replaced, or added where they were not there."""
    positional = [parameter.name for parameter in parameters if parameter.positional]
    merged: list[syntax.Argument] = list(arguments)
    places: dict[str, int] = {}
    for at, argument in enumerate(arguments):
        if argument.keyword is not None:
            places.setdefault(argument.keyword.path, at)
        elif at < len(positional):
            places.setdefault(positional[at], at)
    for change in changes:
        assert change.keyword is not None
        at = places.setdefault(change.keyword.path, len(merged))
        if at == len(merged):
            merged.append(change)
        else:
            merged[at] = replace(change, keyword=None) if merged[at].keyword is None else change
    return tuple(merged)
