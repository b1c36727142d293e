"""Reports about units and arithmetic."""

from leaven.catalog import lookup
from leaven.catalog.card import Parameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Quantity, plural_unit
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error, warning
from leaven.language.fixes import Fix, write
from leaven.messages import describe

UNITS = ("epochs", "steps", "samples", "%", "seconds", "minutes", "hours")


def different_units(left: syntax.Value, left_unit: str, right: syntax.Value, right_unit: str) -> Diagnostic:
    headline = f"{left_unit} and {right_unit} can't be added"
    fix = "give both in the same unit"
    return error("wrong-unit", headline, (right, f"in {right_unit}"), (left, f"in {left_unit}"), fix=fix)


def missing_unit(number: syntax.Value, quantity: syntax.Value, unit: str) -> Diagnostic:
    """A plain number is added to a quantity."""
    headline = f"{unit} and a plain number can't be added"
    fix = write(number.span, f"{number.span.text}%" if unit == "%" else f"{number.span.text} {unit}")
    return error("wrong-unit", headline, (number, "has no unit"), (quantity, f"in {unit}"), fix=fix)


def wrong_operands(value: syntax.Binary) -> Diagnostic:
    headline = f"`{value.operator}` can't be applied to these operands"
    return error("wrong-type", headline, (value, "a quantity can only be multiplied or divided by a plain number"))


def division_by_zero(divisor: syntax.Value) -> Diagnostic:
    return error("division-by-zero", "division by zero", (divisor, "is zero"))


def too_large(value: syntax.Value) -> Diagnostic:
    return error("too-large", "this number is too large", (value, ""))


def unexpected_unit(value: syntax.Value, quantity: Quantity, parameter: Parameter) -> Diagnostic:
    """A unit where a parameter takes none."""
    types, expected = set(parameter.types), describe.expected(parameter)
    fix: Fix | None = None
    if quantity.unit == "%" and types & {"float", "any"}:
        fix = write(value.span, value_text(quantity.amount / 100))
    elif types & {"int", "float"}:
        fix = write(value.span, value_text(quantity.amount))
    id, headline = "wrong-type", f"`{describe.subject(parameter)}` must be {expected}, not {value_text(quantity)}"
    if types & {"int", "float", "any", "list"}:
        id, headline = "wrong-unit", f"`{describe.subject(parameter)}` takes no unit"
    return error(id, headline, (value, f"expected {expected}"), fix=fix)


def wrong_unit(value: syntax.Value, quantity: Quantity, parameter: Parameter) -> Diagnostic:
    expected = describe.expected(parameter)
    near = lookup.nearest(quantity.unit, parameter.units, limit=1)
    fix = Fix(f"write a number of {parameter.units[0]}, such as `{parameter.name}={_example(parameter)}`")
    if near:
        fix = write(value.span, value_text(Quantity(quantity.amount, near[0])))
    headline = f"unknown unit `{quantity.unit}`"
    if plural_unit(quantity.unit) in UNITS:
        headline = f"`{parameter.name}` must be {expected}, not {quantity.unit}"
    return error("wrong-unit", headline, (value, f"expected {expected}"), fix=fix)


def fraction_as_percentage(value: syntax.Value, number: float, parameter: Parameter) -> Diagnostic:
    """`0.8` where percent are counted: 80% is meant, and 0.8% would be read."""
    right = value_text(Quantity(round(number * 100, 6), "%")).replace(".0%", "%")
    parts = [part.strip() for part in value.span.text.split("/")]
    if parameter.name == "train" and len(parts) in (2, 3) and sum(int(p) if p.isdecimal() else 0 for p in parts) == 100:
        right = ", ".join(f"{name}={part}%" for name, part in zip(("train", "val", "test"), parts, strict=False))
    counted = [unit for unit in parameter.units if unit != "%"]
    more = f", or a number of {describe.either(counted)}" if counted and "=" not in right else ""
    headline = f"`{parameter.name}` needs a unit"
    fix = write(value.span, right, after=more)
    return error("wrong-unit", headline, (value, f"would mean {value_text(number)}%"), fix=fix)


def fraction_of_unit(value: syntax.Value, number: float, parameter: Parameter) -> Diagnostic:
    """`warmup=0.1`: a tenth of an epoch, where a tenth of the phase is often meant."""
    unit = parameter.units[0]
    share = value_text(Quantity(round(number * 100, 6), "%")).replace(".0%", "%")
    headline = f"`{parameter.name}={value.span.text}` means {value_text(number)} {unit}"
    fix = write(value.span, share, "for a share of the phase, write ", after=f"; else `{value_text(number)} {unit}`")
    return warning("small-fraction", headline, (value, f"less than one {unit.removesuffix('s')}"), fix=fix)


def _example(parameter: Parameter) -> str:
    """A quantity that the parameter takes."""
    if isinstance(parameter.default, str) and parameter.default[0] != "0":
        return describe.default_text(parameter)
    return value_text(Quantity(10 if parameter.units[0] == "%" else 5, parameter.units[0]))
