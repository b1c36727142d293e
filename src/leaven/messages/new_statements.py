"""A statement that a recipe does not have yet, as it would be written in a line or an option.

Decides the words alone, such as the checker takes; how a statement that is there is reached is left to `reaching.py`.
"""

import shlex
from collections.abc import Collection, Mapping

from leaven.catalog.card import Card, Parameter
from leaven.language import syntax
from leaven.messages import describe


def added(card: Card, given: Mapping[str, str]) -> str:
    """A statement with those arguments and with all that it must have; what it does not take is left out."""
    positional: list[str] = []
    named: list[str] = []
    for parameter in card.parameters:
        if parameter.name in given:
            value = given[parameter.name]
        elif parameter.required:
            value = describe.placeholder(parameter)
        else:
            continue
        if parameter.positional and len(positional) == card.parameters.index(parameter):
            positional.append(value)
        else:
            named.append(f"{parameter.name}={value}")
    return f"{card.bare_name} {', '.join([*positional, *named])}".strip()


def is_ready(card: Card, given: Collection[str]) -> bool:
    """Whether `added` can be pasted as it is: nothing in it stands for what only the user knows."""
    return all(describe.has_example(p) for p in card.parameters if p.required and p.name not in given)


def with_option(statement: str) -> str:
    return f"--with {shlex.quote(statement)}"


def in_place_of(card: Card, value: syntax.Value) -> str:
    """What to write for `--set name=value` where the name is a statement's."""
    first = card.parameters[0] if card.parameters else None
    if first is None or not first.positional:
        named = next((p for p in card.parameters if _fits(value, p)), None)
        return f"say which of its arguments: `--set {card.bare_name}.{named.name if named else '…'}=…`"
    given = {first.name: value.span.text} if _fits(value, first) else {}
    word = "write" if is_ready(card, given) else "the form is"
    return f"{word} `{with_option(added(card, given))}`"


def _fits(value: syntax.Value, parameter: Parameter) -> bool:
    """Whether a value that is plain to see may be one of the parameter's; any other may."""
    types = set(parameter.types)
    match value:
        case syntax.Number():
            return bool(types & {"int", "float", "quantity", "any"})
        case syntax.String():
            return bool(types & {"text", "path", "choice", "selector", "any"})
    return True
