"""Numbers and quantities: what `lr * 10`, `2 epochs` and `-0.5` come to."""

import math
from dataclasses import replace
from typing import Any

from leaven.binding.scope import BOUND_BY_DATA, Scope
from leaven.catalog.value_text import value_text
from leaven.catalog.values import UNKNOWN, FromData, Pending, Quantity, Unknown, plural_unit
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot

MAX_WHOLE = 10**18
MAX_PIECES = 10_000  # of a calculation, with its `let`s written out


def calculate(value: syntax.Value, scope: Scope) -> Any:
    """The number or quantity that an expression comes to; None where it is not one at all."""
    match value:
        case syntax.Number(value=number, unit=None):
            return number if math.isfinite(number) else _too_big(value, scope)
        case syntax.Number(value=number, unit=str(unit)):
            return Quantity(number, plural_unit(unit)) if math.isfinite(number) else _too_big(value, scope)
        case syntax.Name(path=path):
            return _named(path, scope)
        case syntax.Negative(value=inner):
            return _scaled(calculate(inner, scope), -1, value, scope)
        case syntax.Binary(operator=operator, left=left, right=right):
            return _combined(operator, calculate(left, scope), calculate(right, scope), value, scope)
    return None


def _named(path: str, scope: Scope) -> Any:
    if path in BOUND_BY_DATA:
        return scope.from_data(path)
    if path in scope.args:
        number = scope.args[path].value
        scope.used.add(path)
        return number if isinstance(number, int | float | Unknown | Pending) and not isinstance(number, bool) else None
    if path in scope.lets and path not in scope.unfolding:
        scope.used.add(path)
        if path not in scope.numbers:
            scope.unfolding.append(path)
            scope.numbers[path] = calculate(scope.lets[path].value, scope)
            scope.unfolding.pop()
        return scope.numbers[path]
    return UNKNOWN if path in scope.broken_names else None


def _combined(operator: str, left: Any, right: Any, value: syntax.Binary, scope: Scope) -> Any:
    if left is None or right is None:
        return None
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    left, right = _known(left), _known(right)
    if isinstance(left, Pending) or isinstance(right, Pending):
        return Pending(f"{_operand(left)} {operator} {_operand(right)}")
    match operator, left, right:
        case "+" | "-", Quantity(amount, unit), Quantity(other, other_unit):
            if unit != other_unit:
                return scope.report(
                    "wrong-unit",
                    f"{unit} and {other_unit} can't be added up",
                    Spot(value.right.span, f"in {other_unit}"),
                    Spot(value.left.span, f"in {unit}"),
                    fix="write both in the same unit",
                )
            total = _plain(operator, amount, other, value, scope)
            return total if isinstance(total, Unknown) else Quantity(total, unit)
        case "*", Quantity(), int() | float():
            return _scaled(left, right, value, scope)
        case "*", int() | float(), Quantity():
            return _scaled(right, left, value, scope)
        case "/", Quantity(amount, unit), int() | float():
            share = _plain("/", amount, right, value, scope)
            return share if isinstance(share, Unknown) else Quantity(share, unit)
        case _, int() | float(), int() | float():
            return _plain(operator, left, right, value, scope)
        case "+" | "-", Quantity(), int() | float():
            return _no_unit(left, value.left, right, value.right, scope)
        case "+" | "-", int() | float(), Quantity():
            return _no_unit(right, value.right, left, value.left, scope)
    return scope.report(
        "wrong-type",
        f"`{operator}` can't join these two",
        Spot(value.span, "a quantity is multiplied or divided by a plain number"),
    )


def _no_unit(quantity: Quantity, there: syntax.Value, number: float, here: syntax.Value, scope: Scope) -> Unknown:
    right = f"{here.span.text}%" if quantity.unit == "%" else f"{here.span.text} {quantity.unit}"
    return scope.report(
        "wrong-unit",
        f"{quantity.unit} and a plain number can't be added up",
        Spot(here.span, "has no unit"),
        Spot(there.span, f"in {quantity.unit}"),
        fix=Fix(f"write `{right}`", Edit(here.span, right)),
    )


def _plain(operator: str, left: float, right: float, value: syntax.Binary, scope: Scope) -> Any:
    if operator == "/" and right == 0:
        return scope.report("wrong-value", "this divides by zero", Spot(value.right.span, "zero"))
    try:
        result = left + right if operator == "+" else left - right if operator == "-" else left * right
        result = left / right if operator == "/" else result
    except OverflowError:
        return _too_big(value, scope)
    return _bounded(result, value, scope)


def _operand(number: Any) -> str:
    """A part of a calculation that is done later, as it would be written there."""
    text = value_text(number)
    return text if text.isidentifier() or not isinstance(number, Pending) else f"({text})"


def _scaled(number: Any, factor: float, value: syntax.Value, scope: Scope) -> Any:
    number = _known(number)
    if isinstance(number, Quantity):
        amount = _bounded(number.amount * factor, value, scope)
        return amount if isinstance(amount, Unknown) else Quantity(amount, number.unit)
    if isinstance(number, Pending):
        return Pending(f"-{_operand(number)}")
    return _bounded(number * factor, value, scope) if isinstance(number, int | float) else number


def _bounded(result: float, value: syntax.Value, scope: Scope) -> Any:
    """The result, with whole numbers that have too many digits as the parser reads them: not whole."""
    if isinstance(result, int):
        return result if abs(result) < MAX_WHOLE else float(result)
    return result if math.isfinite(result) else _too_big(value, scope)


def _known(value: Any) -> Any:
    if isinstance(value, FromData):
        return Pending(value.name) if value.number is None else value.number
    return value


def _too_big(value: syntax.Value, scope: Scope) -> Unknown:
    return scope.report("wrong-value", "this number is too large to calculate with", value.span)


# -- calculations that are kept


def unfolded(value: syntax.Value, scope: Scope) -> syntax.Value | None:
    """A calculation that changes with an `arg` or the data, its `let`s written out; None for one that is fixed."""
    room = [MAX_PIECES]
    unfolding = _unfold(value, scope, (), room)
    if room[0] < 0:  # `let`s that use `let`s twice grow fast
        scope.report(
            "wrong-value", f"this calculation has more than {MAX_PIECES:,} pieces", Spot(value.span, "too long")
        )
        return None
    return unfolding if _is_symbolic(unfolding) else None


def _unfold(value: syntax.Value, scope: Scope, inside: tuple[str, ...], room: list[int]) -> syntax.Value:
    """A value with its `let`s written out, as far as there is room for its pieces."""
    room[0] -= 1
    if room[0] < 0:
        return value
    match value:
        case syntax.Name(path=path) if path in scope.lets and path not in inside:
            return _unfold(scope.lets[path].value, scope, (*inside, path), room)
        case syntax.Name(path=path) if path not in scope.args and path not in BOUND_BY_DATA:
            return syntax.Literal(None, value.span)
        case syntax.Negative(value=inner):
            return replace(value, value=_unfold(inner, scope, inside, room))
        case syntax.Binary(left=left, right=right):
            return replace(value, left=_unfold(left, scope, inside, room), right=_unfold(right, scope, inside, room))
    return value


def _is_symbolic(value: syntax.Value) -> bool:
    match value:
        case syntax.Name():
            return True
        case syntax.Negative(value=inner):
            return _is_symbolic(inner)
        case syntax.Binary(left=left, right=right):
            return _is_symbolic(left) or _is_symbolic(right)
    return False
