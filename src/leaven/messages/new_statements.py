"""A statement that a recipe does not have yet, as it would be written in a line or an option."""

import shlex
from collections.abc import Collection, Mapping

from leaven.catalog.card import Card, Parameter
from leaven.language import syntax
from leaven.language.fixes import Fix, write_option
from leaven.language.source import Span
from leaven.messages import describe


def new_statement(card: Card, given: Mapping[str, str]) -> str:
    """A statement with those arguments and with all that it must have; what it does not take is left out."""
    positional: list[str] = []
    named: list[str] = []
    for parameter in card.parameters:
        if parameter.name in given:
            value = given[parameter.name]
        elif parameter.required or parameter.usual:
            value = describe.placeholder(parameter)
        else:
            continue
        if parameter.positional and len(positional) == card.parameters.index(parameter):
            positional.append(value)
        else:
            named.append(f"{parameter.name}={value}")
    return f"{card.bare_name} {', '.join([*positional, *named])}".strip()


def is_pasteable(card: Card, given: Collection[str]) -> bool:
    """Whether `new_statement` has no placeholder for what only the user knows."""
    return all(describe.has_example(p) for p in card.parameters if p.required and p.name not in given)


def with_option(statement: str) -> str:
    return f"--with {shlex.quote(statement)}"


def instead_of_setting(place: Span, card: Card, value: syntax.Value) -> Fix | str:
    """The fix for `--set name=value` where the name is a statement's."""
    first = card.parameters[0] if card.parameters else None
    if first is None or not first.positional:
        named = next((p.name for p in card.parameters if _may_be(value, p)), "…")
        return f"name the argument: `--set {card.bare_name}.{named}=…`"
    given = {first.name: value.span.text} if _may_be(value, first) else {}
    option = with_option(new_statement(card, given))
    return write_option(place, option) if is_pasteable(card, given) else f"usage: `{option}`"


def _may_be(value: syntax.Value, parameter: Parameter) -> bool:
    """Whether a value may be one of the parameter's, as far as its form tells."""
    types = set(parameter.types)
    match value:
        case syntax.Number():
            return bool(types & {"int", "float", "quantity", "any"})
        case syntax.String():
            return bool(types & {"text", "path", "choice", "selector", "any"})
    return True
