"""Tokens, and the text after one that an error message quotes."""

import re
from typing import NamedTuple

from leaven.language.source import Span

_LOOKAHEAD = 120  # characters that are read after a token, so that an endless line costs no time


class Token(NamedTuple):
    """A piece of the source with its type. One that `layout.py` adds has an empty span."""

    type: str
    value: str
    span: Span

    def __str__(self) -> str:
        return self.value


def text_after(token: Token) -> str:
    """The characters that follow a token, up to a limit."""
    return token.span.source.text[token.span.end : token.span.end + _LOOKAHEAD]


def rest_of_line(token: Token) -> str:
    """The text after a token, up to the end of its line or the block of its statement."""
    rest = re.match(r"[^#;{}\r\n]*", text_after(token))
    value = rest[0].strip() if rest else ""
    return value if len(value) < _LOOKAHEAD - 20 else value[:20] + "…"


def through(token: Token, pattern: str) -> Span:
    """A token and what follows it, as far as that matches; spaces at the end are left out."""
    following = re.match(pattern, text_after(token))
    return Span(token.span.source, token.span.start, token.span.end + len(following[0].rstrip() if following else ""))


def line_from(token: Token) -> Span:
    """A token and what follows it, up to the end of its line or the block of its statement."""
    return through(token, r"[^#;{}\r\n]*")
