"""Numbers and quantities: what `lr * 10`, `2 epochs` and `-0.5` come to, and whether parameters take that."""

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from leaven.binding.scope import BOUND_BY_DATA, MAX_PARTS, Scope
from leaven.catalog.card import Parameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import UNKNOWN, FromData, Number, Pending, Quantity, Unknown, plural_unit
from leaven.language import syntax
from leaven.messages import values as messages

T = TypeVar("T", int | float, Quantity)

MAX_WHOLE = 10**18
_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def calculate(value: syntax.Value, scope: Scope) -> Number | Unknown | None:
    """The number or quantity that an expression comes to; None where it is not one at all."""
    match value:
        case syntax.Number(value=number, unit=unit):
            if not math.isfinite(number):
                return scope.add(messages.number_too_large(value))
            return number if unit is None else Quantity(number, plural_unit(unit))
        case syntax.Name(path=path):
            return _named(value, path, scope)
        case syntax.Negative(value=inner):
            operand = calculate(inner, scope)
            return operand if operand is None or isinstance(operand, Unknown) else _negated(_known(operand))
        case syntax.Binary(left=left, right=right):
            first, second = calculate(left, scope), calculate(right, scope)
            if first is None or second is None:
                return None
            if isinstance(first, Unknown) or isinstance(second, Unknown):
                return UNKNOWN
            return _combined(_known(first), _known(second), value, scope)
    return None


def _named(use: syntax.Name, path: str, scope: Scope) -> Number | Unknown | None:
    if path in BOUND_BY_DATA:
        return scope.from_data(use)
    if path in scope.args:
        scope.used.add(path)
        number = scope.args[path].value
        return number if isinstance(number, int | float | Unknown | Pending) and not isinstance(number, bool) else None
    if path in scope.lets and path not in scope.expanding:
        scope.used.add(path)
        if path not in scope.numbers:
            scope.numbers[path] = scope.expand(use, lambda inner: calculate(inner, scope))
        return scope.numbers[path]
    return UNKNOWN if path in scope.broken_names else None


def _known(value: Number) -> int | float | Quantity | Pending:
    if isinstance(value, FromData):
        return Pending(value.name) if value.number is None else value.number
    return value


def _negated(number: int | float | Quantity | Pending) -> Number:
    match number:
        case Pending():
            return Pending(f"-{_operand(number)}")
        case Quantity(amount, unit):
            return Quantity(-amount, unit)
    return -number


def _combined(
    left: int | float | Quantity | Pending,
    right: int | float | Quantity | Pending,
    value: syntax.Binary,
    scope: Scope,
) -> Number | Unknown:
    sign = value.operator
    if isinstance(left, Pending) or isinstance(right, Pending):
        return Pending(f"{_operand(left)} {sign} {_operand(right)}")
    match sign, left, right:
        case _, int() | float(), int() | float():
            return _calculated(left, right, value, scope)
        case "+" | "-", Quantity(amount, unit), Quantity(other, other_unit):
            if unit != other_unit:
                return scope.add(messages.different_units(value.left, unit, value.right, other_unit))
            return _with_unit(_calculated(amount, other, value, scope), unit)
        case "*" | "/", Quantity(amount, unit), int() | float():
            return _with_unit(_calculated(amount, right, value, scope), unit)
        case "*", int() | float(), Quantity(amount, unit):
            return _with_unit(_calculated(left, amount, value, scope), unit)
        case "+" | "-", Quantity(unit=unit), int() | float():
            return scope.add(messages.missing_unit(value.right, value.left, unit))
        case "+" | "-", int() | float(), Quantity(unit=unit):
            return scope.add(messages.missing_unit(value.left, value.right, unit))
    return scope.add(messages.wrong_operands(value))


def _calculated(left: float, right: float, value: syntax.Binary, scope: Scope) -> int | float | Unknown:
    """The result; a whole number with too many digits is not whole, as where the parser reads one."""
    if value.operator == "/" and right == 0:
        return scope.add(messages.division_by_zero(value.right))
    try:
        result = _OPERATIONS[value.operator](left, right)
    except OverflowError:
        return scope.add(messages.number_too_large(value))
    if isinstance(result, int):
        return result if abs(result) < MAX_WHOLE else float(result)
    return result if math.isfinite(result) else scope.add(messages.number_too_large(value))


def _with_unit(amount: int | float | Unknown, unit: str) -> Quantity | Unknown:
    return amount if isinstance(amount, Unknown) else Quantity(amount, unit)


def _operand(number: int | float | Quantity | Pending) -> str:
    """A part of a calculation that is done later, as it would be written there."""
    text = value_text(number)
    return text if text.isidentifier() or not isinstance(number, Pending) else f"({text})"


def kept_expression(value: syntax.Value, scope: Scope) -> syntax.Value | None:
    """A calculation that changes with an `arg` or the data, its `let`s written out; None for one that is fixed."""
    if not isinstance(value, syntax.Name | syntax.Negative | syntax.Binary):
        return None
    left = [MAX_PARTS]
    expression = _written_out(value, scope, (), left)
    if left[0] < 0:
        scope.can_expand(value, MAX_PARTS + 1)
        return None
    return expression if _has_names(expression) else None


def _written_out(value: syntax.Value, scope: Scope, inside: tuple[str, ...], left: list[int]) -> syntax.Value:
    """A value with its `let`s written out, as far as parts are left; `let`s that use `let`s twice grow fast."""
    left[0] -= 1
    if left[0] < 0:
        return value
    match value:
        case syntax.Name(path=path) if path in scope.lets and path not in inside:
            return _written_out(scope.lets[path].value, scope, (*inside, path), left)
        case syntax.Name(path=path) if path not in scope.args and path not in BOUND_BY_DATA:
            return syntax.Literal(None, value.span)
        case syntax.Negative(value=inner):
            return replace(value, value=_written_out(inner, scope, inside, left))
        case syntax.Binary(left=first, right=second):
            first = _written_out(first, scope, inside, left)
            return replace(value, left=first, right=_written_out(second, scope, inside, left))
    return value


def _has_names(value: syntax.Value) -> bool:
    match value:
        case syntax.Name():
            return True
        case syntax.Negative(value=inner):
            return _has_names(inner)
        case syntax.Binary(left=left, right=right):
            return _has_names(left) or _has_names(right)
    return False


# -- units and bounds of parameters


def in_units(scope: Scope, value: syntax.Value, quantity: Quantity, parameter: Parameter) -> Quantity | Unknown:
    """A quantity, if the parameter takes its unit."""
    if quantity.unit in parameter.units:
        return within_bounds(scope, value, quantity, parameter)
    if "quantity" in parameter.types:
        return scope.add(messages.wrong_unit(value, quantity, parameter))
    return scope.add(messages.unexpected_unit(value, quantity, parameter))


def as_quantity(scope: Scope, value: syntax.Value, number: float, parameter: Parameter) -> Quantity | Unknown:
    """A plain number in the parameter's first unit; a fraction where percent are counted is refused."""
    if parameter.units[0] == "%" and isinstance(number, float) and 0 < number <= 1:
        return scope.add(messages.fraction_as_percentage(value, number, parameter))
    if "%" in parameter.units and isinstance(number, float) and 0 < number < 1 and isinstance(value, syntax.Number):
        scope.add(messages.fraction_of_unit(value, number, parameter))
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
    return scope.add(messages.out_of_range(value, number, parameter, bound)) if bound else number


def whole(scope: Scope, value: syntax.Value, number: Quantity, parameter: Parameter) -> Quantity | Unknown:
    """A quantity, if it is a whole number of its unit."""
    if isinstance(number.amount, int):
        return number
    if number.amount.is_integer():
        return Quantity(int(number.amount), number.unit)
    return scope.add(messages.not_whole(value, number, parameter))
