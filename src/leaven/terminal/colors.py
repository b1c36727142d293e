"""The colours of a terminal: whether output is coloured, and in which.

They are the sixteen that every terminal adapts to its background.
"""

import os
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

Paint = Callable[[str, str], str]  # a role of _STYLES, and the text


def wants_color(stream: TextIO) -> bool:
    """Whether output to a stream is coloured: no if NO_COLOR is set, yes if FORCE_COLOR is, otherwise on a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def painter(color: bool) -> Paint:
    """A function that colours a text by its role, or leaves it as it is."""
    if not color:
        return lambda role, text: text
    return lambda role, text: f"\x1b[{_STYLES[role]}m{text}\x1b[0m" if text else ""
