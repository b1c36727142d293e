"""Places in code units of UTF-16."""

import pytest

from leaven.language.utf16 import offset_of_utf16, utf16_length


@pytest.mark.parametrize("text", ["", "abc", "é😀b", "😀😀", "a\U00010000\uffffz"])
def test_every_place_is_found_again(text: str) -> None:
    assert utf16_length(text) == len(text.encode("utf-16-le")) // 2
    for offset in range(len(text) + 1):
        assert offset_of_utf16(text, utf16_length(text[:offset])) == offset


def test_a_place_after_the_end_is_the_end() -> None:
    assert offset_of_utf16("a😀", 99) == 2
    assert offset_of_utf16("abc", 99) == 3
