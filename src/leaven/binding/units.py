"""Numbers against their parameters: units, bounds, lengths, whole numbers."""

from typing import TypeVar

from leaven.binding.scope import Scope
from leaven.catalog.card import Parameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Quantity, Unknown
from leaven.language import syntax
from leaven.messages import numbers, values

T = TypeVar("T", int | float, Quantity)


def in_units(scope: Scope, value: syntax.Value, quantity: Quantity, parameter: Parameter) -> Quantity | Unknown:
    """A quantity, if the parameter takes its unit."""
    if quantity.unit in parameter.units:
        return within_bounds(scope, value, quantity, parameter)
    if "quantity" in parameter.types:
        return scope.add(numbers.wrong_unit(value, quantity, parameter))
    return scope.add(numbers.unexpected_unit(value, quantity, parameter))


def as_quantity(scope: Scope, value: syntax.Value, number: float, parameter: Parameter) -> Quantity | Unknown:
    """A plain number in the parameter's first unit; a fraction where percent are counted is refused."""
    if parameter.units[0] == "%" and isinstance(number, float) and 0 < number <= 1:
        return scope.add(numbers.fraction_as_percentage(value, number, parameter))
    if "%" in parameter.units and isinstance(number, float) and 0 < number < 1 and isinstance(value, syntax.Number):
        scope.add(numbers.fraction_of_unit(value, number, parameter))
    return within_bounds(scope, value, Quantity(number, parameter.units[0]), parameter)


def within_bounds(scope: Scope, value: syntax.Value, number: T, parameter: Parameter) -> T | Unknown:
    """A number, if it is within the parameter's bounds."""
    amount = number.amount if isinstance(number, Quantity) else number
    bound, percent = "", "%" if isinstance(number, Quantity) and number.unit == "%" else ""
    if parameter.minimum is not None and amount < parameter.minimum:
        bound = f"at least {value_text(parameter.minimum)}{percent}"
    elif parameter.above is not None and amount <= parameter.above:
        bound = f"more than {value_text(parameter.above)}{percent}"
    elif parameter.maximum is not None and amount > parameter.maximum:
        bound = f"at most {value_text(parameter.maximum)}{percent}"
    elif parameter.below is not None and amount >= parameter.below:
        bound = f"less than {value_text(parameter.below)}{percent}"
    elif percent and amount > 100:
        bound = "at most 100%"
    return scope.add(values.out_of_range(value, number, parameter, bound)) if bound else number


def whole(scope: Scope, value: syntax.Value, number: Quantity, parameter: Parameter) -> Quantity | Unknown:
    """A quantity, if it is a whole number of its unit."""
    if isinstance(number.amount, int):
        return number
    if number.amount.is_integer():
        return Quantity(int(number.amount), number.unit)
    return scope.add(values.not_whole(value, number, parameter))
