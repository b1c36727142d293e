"""Sizes as people write and read them."""

import pytest

from leaven.terminal.byte_sizes import parse_bytes, show_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [("20GB", 20 * 10**9), ("1.5 tb", 1_500_000_000_000), ("512MiB", 2**29), ("7k", 7000), ("0", 0), (" 12 ", 12)],
)
def test_a_size_is_read(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "20 GX", "1,5GB", "1e9", "٣GB", "20GB!"])
def test_what_is_not_a_size_is_none(text: str) -> None:
    assert parse_bytes(text) is None


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (740, "740 B"),
        (1300, "1.3 kB"),
        (999_700, "1.0 MB"),
        (128_400_000_000, "128 GB"),
        (10**19, "10,000 PB"),
    ],
)
def test_a_size_is_short(count: int, text: str) -> None:
    assert show_bytes(count) == text
