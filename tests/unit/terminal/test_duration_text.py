"""Durations as people say them."""

import pytest

from leaven.terminal.duration_text import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0008, "0.8 ms"),
        (0.041, "41 ms"),
        (1.3, "1.3 s"),
        (9.97, "10 s"),
        (99, "99 s"),
        (180, "3 min"),
        (20_000, "6 h"),
    ],
)
def test_a_duration_has_no_more_digits_than_it_needs(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
