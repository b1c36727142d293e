"""What a text is: one string, or a pair that a model reads together; and which of them no model can use."""

from collections.abc import Sequence
from typing import NamedTuple

Text = str | tuple[str, ...]


def parts_of(text: Text) -> tuple[str, ...]:
    """The strings of a text."""
    return (text,) if isinstance(text, str) else text


def text_columns(text: str | Sequence[str]) -> tuple[str, ...]:
    """The columns whose texts a model reads together."""
    return (text,) if isinstance(text, str) else tuple(text)


class Fault(NamedTuple):
    """Why a text can't be used: the id of the page in the docs, and a fact that follows its place."""

    id: str
    fact: str


def text_fault(text: Text | None) -> Fault | None:
    """The fault of a text; None for one that can be used, or was not read."""
    if text is None:
        return None
    parts = parts_of(text)
    if not all(map(is_utf8, parts)):  # bytes that are not UTF-8 are read as halves of characters
        return Fault("not-utf8", "is not UTF-8 text")
    if all(part.strip() for part in parts):
        return None
    is_all = len(parts) == 1 or not any(part.strip() for part in parts)
    return Fault("empty-text", "has no text" if is_all else "lacks one of its texts")


def is_utf8(text: str) -> bool:
    """Whether a string, such as the name of a file, can be stored as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
