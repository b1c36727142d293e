"""Columns of texts as a store can hold them, of words and of JSON: every text passes here before it is stored.

Names of files, messages of programs and reasons of engines come from anywhere. No database takes halves of characters
(which Python makes of file names that are not UTF-8), PostgreSQL takes no NUL, and nobody wants control characters.
"""

import json
import re
from enum import StrEnum
from typing import Any

from sqlalchemy import Text
from sqlalchemy.types import TypeDecorator

_UNWANTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def storable(text: str, limit: int) -> str:
    """A text in which characters that can't be stored are escaped, cut off at the limit."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return _UNWANTED.sub(_escaped, cut)


def _escaped(character: re.Match[str]) -> str:
    code = ord(character[0])
    code -= 0xDC00 if 0xDC80 <= code <= 0xDCFF else 0  # a byte of a file name that is not UTF-8
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Words(TypeDecorator[str]):
    """A column of texts of bounded length, such as names, states and reasons."""

    impl = Text
    cache_ok = True

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else storable(str(value), self.limit)


class Choice(Words):
    """A column with one of some words."""

    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__(32)
        self.words = words

    def process_result_value(self, value: str | None, dialect: Any) -> StrEnum | None:
        return None if value is None else self.words(value)


class Content(TypeDecorator[Any]):
    """A column with plain data, as JSON."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, sort_keys=True)  # in copies it is text

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        return json.loads(value or "{}")
