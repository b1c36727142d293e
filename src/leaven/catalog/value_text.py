"""Values as a recipe writes them."""

from typing import Any

from leaven.catalog.values import FilePath, FromData, Pending, Quantity, UserDefinition
from leaven.language import syntax
from leaven.language.layout import ESCAPES

_ESCAPED = str.maketrans({meant: written for written, meant in ESCAPES.items()})


def quoted(text: str) -> str:
    """A text as it would be written in a recipe."""
    return f'"{text.translate(_ESCAPED)}"'


def value_text(value: Any) -> str:
    """A value as it would be written in a recipe."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case float():
            text = repr(value)
            if 0 < abs(value) < 0.001:  # the shortest form that reads back the same: `3e-4`
                text = next(short for places in range(18) if float(short := f"{value:.{places}e}") == value)
            mantissa, e, exponent = text.partition("e")
            return f"{mantissa}e{int(exponent)}" if e else text
        case Quantity(amount, unit):
            written = "%" if unit == "%" else f" {unit.removesuffix('s')}" if amount == 1 else f" {unit}"
            return value_text(amount) + written
        case str(text) | FilePath(text=text):
            return quoted(text)
        case tuple() | list():
            return "[" + ", ".join(value_text(item) for item in value) + "]"

        case FromData(name=name) | Pending(name=name):
            return name
        case UserDefinition(module, name):
            return f"{module}.{name}"
    return str(value)


def expression_text(value: syntax.Value, binding: int = 0) -> str:
    """A calculation as it would be written, with brackets where they are needed."""
    match value:
        case syntax.Binary(operator=operator, left=left, right=right):
            strength = 1 if operator in "+-" else 2
            text = f"{expression_text(left, strength)} {operator} {expression_text(right, strength + 1)}"
            return f"({text})" if strength < binding else text
        case syntax.Negative(value=inner):
            return f"-{expression_text(inner, 3)}"
    return value.span.text
