"""Captions: names of any length and in any script, cut to the room that they have."""

import re
import unicodedata

_PIECES = re.compile(r"\S*?\((?=\S)|\S+\s*|\s+")


def columns(text: str) -> int:
    """How wide a text is, in letters: those of East Asian scripts count twice."""
    return sum(2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1 for letter in text)


def cut(text: str, room: int) -> str:
    """A text in one line of no more than `room` letters."""
    text = _printable(text)
    if columns(text) <= room:
        return text
    while text and columns(text) > room - 1:
        text = text[:-1]
    return f"{text}…"


def wrapped(text: str, room: int, lines: int) -> str:
    """A text in up to so many lines, broken at spaces, and in a call after its bracket."""
    rows: list[str] = []
    for part in text.splitlines():
        line = ""
        for piece in _PIECES.findall(_printable(part)):
            if line and columns(line + piece.rstrip()) > room:
                rows.append(line.rstrip())
                line = ""
            line += piece
        rows.append(line.rstrip())
    if len(rows) > lines:
        rows = [*rows[: lines - 1], f"{cut(rows[lines - 1], room - 2)} …"]
    return "\n".join(cut(line, room) for line in rows)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)
