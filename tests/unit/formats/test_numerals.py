"""Numbers as people write them."""

import pytest

from leaven.formats.numerals import decimal_mark, number_in


@pytest.mark.parametrize(
    ("text", "default", "point", "comma"),
    [
        ("12", 12, 12, 12),
        ("-3.5e2", -350, -350, None),
        ("$3,603.65", 3603.65, 3603.65, None),
        ("-$5", -5, -5, -5),
        ("5.059,82 €", None, None, 5059.82),
        ("1,234", None, 1234, 1.234),
        ("0,567", None, None, 0.567),
        ("12,5", None, None, 12.5),
        ("1,234,567", 1234567, 1234567, None),
        ("1.234", 1.234, 1.234, 1234),
        ("1'234.5", 1234.5, 1234.5, None),
        ("1\u202f234,5", None, None, 1234.5),
        ("45 %", 45, 45, 45),
        ("\u22123", -3, -3, -3),
        ("1,23,456", None, None, None),
        ("1_000", None, None, None),
        ("\u0663\u0664", None, None, None),
        ("$", None, None, None),
        ("1.2.3", None, None, None),
        ("ten", None, None, None),
    ],
)
def test_a_text_is_a_number_by_its_decimal_mark(
    text: str, default: float | None, point: float | None, comma: float | None
) -> None:
    assert [number_in(text, mark) for mark in (None, ".", ",")] == [default, point, comma]


def test_a_column_tells_its_decimal_mark() -> None:
    assert decimal_mark(["1.5", "$2"]) is None
    assert decimal_mark(["1,234", "3,5"]) == ","
    assert decimal_mark(["1,234", "1,234.5"]) == "."
    assert decimal_mark(["1,234", "999"]) == "."  # as most tables have it; whether it is meant is asked
