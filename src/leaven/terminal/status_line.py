"""The last line of a terminal, which says what is being done and is erased when it is done.

It is written to standard error, and only where that is a terminal: what is printed elsewhere never has it. Of a run on
several devices, only the first process writes it.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leaven.terminal.visible import visible

ERASE = "\r\x1b[K"
_SECONDS = 0.1  # between two updates of a line that changes often
_USUAL_WIDTH = 80

_text = ""  # what the line says now
_updated_at = 0.0


def is_watched() -> bool:
    """Whether somebody sees the line."""
    if sys.stderr is None or sys.stderr.closed or not sys.stderr.isatty():
        return False
    return os.environ.get("TERM") != "dumb" and os.environ.get("LOCAL_RANK", "0") == "0"


@contextmanager
def doing(text: str) -> Iterator[None]:
    """Says what is done inside of the block; then the line is as before."""
    before = _text
    show(text)
    try:
        yield
    finally:
        show(before)


def show(text: str) -> None:
    """Says something in place of what the line said; an empty text erases it."""
    global _text
    if text != _text and is_watched():
        shown = visible(text)
        shown = shown if len(shown) < width() else shown[: width() - 2] + "…"
        sys.stderr.write(f"{ERASE}{shown}")
        sys.stderr.flush()
        _text = text


def erase() -> None:
    """Erases the line."""
    show("")


def update(text: Callable[[], str]) -> None:
    """Says something that changes often: the text is asked for only if the last update is not too recent."""
    global _updated_at
    now = time.monotonic()
    if now - _updated_at >= _SECONDS:
        _updated_at = now
        if is_watched():
            show(text())


def width() -> int:
    """The number of columns of the terminal."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH
