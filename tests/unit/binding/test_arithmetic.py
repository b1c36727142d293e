"""What calculations come to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaven.binding.arithmetic import calculate
from leaven.binding.scope import Scope
from leaven.catalog.values import Quantity, Unknown
from leaven.language.parser import parse_value
from leaven.language.source import Source

quick = settings(max_examples=100, deadline=None)


whole = st.integers(0, 10**6).map(str)
fraction = st.floats(1e-6, 1e6).map(repr)
expressions = st.recursive(
    whole | fraction,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda value: f"-{value}" if not value.startswith("-") else f"-({value})"),
    ),
    max_leaves=8,
)


def calculated(text: str) -> tuple[object, list[str]]:
    """What an expression comes to, and the ids of what is wrong with it."""
    scope = Scope()
    value, errors = parse_value(Source("value", text))
    assert value is not None
    assert not errors
    return calculate(value, scope), [report.id for report in scope.diagnostics]


@given(expressions)
@settings(max_examples=500, deadline=None)
def test_leaven_calculates_as_python_does(text: str) -> None:
    found, reports = calculated(text)
    try:
        expected = eval(text)
    except ZeroDivisionError:
        assert isinstance(found, Unknown)
        assert set(reports) == {"division-by-zero"}
        return
    if isinstance(expected, int) and abs(expected) >= 10**18:
        expected = float(expected)
    assert found == pytest.approx(expected, rel=1e-12)


@given(whole, whole, st.sampled_from("+-"), st.sampled_from(["epochs", "%", "steps"]))
@quick
def test_quantities_of_one_unit_add_up(one: str, other: str, operator: str, unit: str) -> None:
    expected = eval(f"{one} {operator} {other}")
    assert calculated(f"{one} {unit} {operator} {other} {unit}") == (Quantity(expected, unit), [])


@given(whole, whole)
@quick
def test_quantities_of_two_units_do_not(one: str, other: str) -> None:
    assert calculated(f"{one} epochs + {other} steps")[1] == ["wrong-unit"]


@given(whole, whole)
@quick
def test_a_quantity_times_a_number_is_a_quantity(one: str, other: str) -> None:
    expected = (Quantity(int(one) * int(other), "epochs"), [])
    assert calculated(f"{one} epochs * {other}") == calculated(f"{other} * {one} epochs") == expected
