"""Columns: how many a terminal has, and how many a text takes."""

import unicodedata
from typing import TextIO

_NARROWEST = 40  # columns; in less, nothing can be laid out


def width_of(stream: TextIO) -> int | None:
    """The number of columns of a terminal; None for a file or a pipe, where lines may have any length."""
    from shutil import get_terminal_size  # here, since a check does not need it

    return max(get_terminal_size().columns, _NARROWEST) if stream.isatty() else None


def columns(text: str) -> int:
    """How many columns a text without control characters takes."""
    return len(text) if text.isascii() else sum(_width(character) for character in text)


def _width(character: str) -> int:
    is_hangul_ending = "\u1160" <= character <= "\u11ff"  # drawn into the syllable before it
    if unicodedata.category(character) in ("Mn", "Me") or is_hangul_ending:
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
