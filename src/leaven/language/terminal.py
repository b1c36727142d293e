"""What a terminal shows: whether output is coloured, in which colours, and how wide it is.

The colours are the sixteen that every terminal adapts to its background.
"""

import os
import unicodedata
from collections.abc import Callable
from typing import TextIO

_STYLES = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;34",
    "help": "1;32",
    "headline": "1",
    "gutter": "34",
    "aside": "34",
    "statement": "1;34",
    "string": "32",
    "number": "35",
    "comment": "2",
}
_NARROWEST = 40  # columns; in less, nothing can be laid out

Paint = Callable[[str, str], str]  # a role of _STYLES, and the text


def wants_color(stream: TextIO) -> bool:
    """Whether output to a stream is coloured: no if NO_COLOR is set, yes if FORCE_COLOR is, otherwise on a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def width_of(stream: TextIO) -> int | None:
    """The number of columns of a terminal; None for a file or a pipe, where lines may have any length."""
    from shutil import get_terminal_size  # here, since a check does not need it

    return max(get_terminal_size().columns, _NARROWEST) if stream.isatty() else None


def painter(color: bool) -> Paint:
    """What colours a text by its role, or leaves it as it is."""
    return _paint_ansi if color else _paint_nothing


def _paint_ansi(role: str, text: str) -> str:
    return f"\x1b[{_STYLES[role]}m{text}\x1b[0m" if text else ""


def _paint_nothing(role: str, text: str) -> str:
    return text


def columns(text: str) -> int:
    """How many columns a text without control characters takes."""
    return len(text) if text.isascii() else sum(_width(character) for character in text)


def _width(character: str) -> int:
    is_hangul_ending = "\u1160" <= character <= "\u11ff"  # drawn into the syllable before it
    if unicodedata.category(character) in ("Mn", "Me") or is_hangul_ending:
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
