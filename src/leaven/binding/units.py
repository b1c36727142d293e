"""Numbers against their parameters: units, bounds, whole numbers."""

from typing import Any

from leaven.binding.scope import Scope
from leaven.catalog import lookup
from leaven.catalog.card import Parameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Quantity, Unknown
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.messages import describe


def in_units(scope: Scope, value: syntax.Value, quantity: Quantity, parameter: Parameter) -> Any:
    if quantity.unit in parameter.units:
        return within_bounds(scope, value, quantity, parameter)
    amount = value_text(quantity.amount)
    if "quantity" not in parameter.types:
        wanted = describe.expected(parameter)
        help_text: Fix | str | None = None
        if quantity.unit == "%" and set(parameter.types) & {"float", "any"}:
            share = value_text(quantity.amount / 100)
            help_text = Fix(f"write `{share}`", Edit(value.span, share))
        elif set(parameter.types) & {"int", "float"}:
            help_text = Fix(f"write `{amount}`", Edit(value.span, amount))
        is_number = bool(set(parameter.types) & {"int", "float", "any", "list"})
        return scope.report(
            "wrong-unit" if is_number else "wrong-type",
            f"`{parameter.name}` has no unit"
            if is_number
            else f"`{parameter.name}` takes {wanted}, not {value_text(quantity)}",
            Spot(value.span, f"expected {wanted}"),
            fix=help_text,
        )
    near = lookup.nearest(quantity.unit, parameter.units, limit=1)
    fix = f"write a number of {parameter.units[0]}, such as `{parameter.name}={_example(parameter)}`"
    if near:
        right = value_text(Quantity(quantity.amount, near[0]))
    return scope.report(
        "wrong-unit",
        f"`{parameter.name}` is counted in {describe.either(parameter.units)}, not in {quantity.unit}",
        Spot(value.span, f"expected {describe.either(parameter.units)}"),
        fix=Fix(f"write `{right}`", Edit(value.span, right)) if near else fix,
    )


def _example(parameter: Parameter) -> str:
    """A quantity that the parameter takes."""
    if isinstance(parameter.default, str) and parameter.default[0] != "0":
        return describe.default_text(parameter)
    return value_text(Quantity(10 if parameter.units[0] == "%" else 5, parameter.units[0]))


def bare_share(scope: Scope, value: syntax.Value, number: float, parameter: Parameter) -> Unknown | None:
    """Report `0.8` where percent are counted: 80% is meant, and 0.8% would be taken."""
    if parameter.units[0] != "%" or not isinstance(number, float) or not 0 < number <= 1:
        return None
    right = value_text(Quantity(round(number * 100, 6), "%")).replace(".0%", "%")
    parts = [part.strip() for part in value.span.text.split("/")]
    if parameter.name == "train" and len(parts) in (2, 3) and sum(int(p) if p.isdecimal() else 0 for p in parts) == 100:
        right = ", ".join(f"{name}={part}%" for name, part in zip(("train", "val", "test"), parts, strict=False))
    return scope.report(
        "wrong-unit",
        f"`{parameter.name}` is counted in {describe.either(parameter.units)}, and {value_text(number)} has no unit",
        Spot(value.span, f"would mean {value_text(number)}%"),
        fix=Fix(f"write `{right}`", Edit(value.span, right)),
    )


def within_bounds(scope: Scope, value: syntax.Value, number: Any, parameter: Parameter) -> Any:
    amount = number.amount if isinstance(number, Quantity) else number
    bound = ""
    if parameter.minimum is not None and amount < parameter.minimum:
        bound = f"at least {value_text(parameter.minimum)}"
    elif parameter.above is not None and amount <= parameter.above:
        bound = f"more than {value_text(parameter.above)}"
    elif parameter.maximum is not None and amount > parameter.maximum:
        bound = f"at most {value_text(parameter.maximum)}"
    elif parameter.below is not None and amount >= parameter.below:
        bound = f"less than {value_text(parameter.below)}"
    elif isinstance(number, Quantity) and number.unit == "%" and amount > 100:
        bound = "at most 100%"
    if not bound:
        return number
    return scope.report(
        "wrong-value",
        f"`{parameter.name}` can't be {_amount(number, parameter)}",
        Spot(value.span, f"must be {bound}"),
        fix=usual_value(parameter),
    )


def of_length(scope: Scope, value: syntax.Value, items: tuple[Any, ...], parameter: Parameter) -> Any:
    """The items of a list, if there are as many as there must be."""
    if parameter.length is None or len(items) == parameter.length:
        return items
    return scope.report(
        "wrong-value",
        f"`{parameter.name}` takes {parameter.length} values, not {len(items)}",
        Spot(value.span, f"expected a list of {parameter.length}"),
        fix=usual_value(parameter),
    )


def usual_value(parameter: Parameter) -> str | None:
    """What to write where nothing else is known to be right."""
    if parameter.default is None or parameter.default in ("0 epochs", "auto"):
        return None
    return f"its default is `{describe.default_text(parameter)}`"


def _amount(number: Any, parameter: Parameter) -> str:
    """A number as it is read behind its parameter: `epochs` can't be -1, not -1 epochs."""
    is_said = isinstance(number, Quantity) and number.unit == parameter.name
    return value_text(number.amount if is_said else number)


def whole(scope: Scope, value: syntax.Value, number: Any, parameter: Parameter) -> Any:
    if not isinstance(number, Quantity) or isinstance(number.amount, int):
        return number
    if number.amount.is_integer():
        return Quantity(int(number.amount), number.unit)
    return scope.report(
        "wrong-value",
        f"`{parameter.name}` can't be {_amount(number, parameter)}",
        Spot(value.span, f"{number.unit} are whole here"),
        fix=f"write `{int(number.amount)}` or `{int(number.amount) + 1}`",
    )
