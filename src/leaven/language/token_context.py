"""What stands around a token in its text, for the words of a report."""

import re

from leaven.language.layout import Piece
from leaven.language.source import Span

_AHEAD = 120  # characters that are looked at behind a token, so that a report about an endless line is made at once


def text_behind(token: Piece) -> str:
    """The characters that follow a token, not too many."""
    return token.span.source.text[token.span.end : token.span.end + _AHEAD]


def ahead(token: Piece) -> str:
    """What stands behind a token up to the end of its line or the block of its statement."""
    found = re.match(r"[^#;{}\r\n]*", text_behind(token))
    value = found[0].strip() if found else ""
    return value if len(value) < _AHEAD - 20 else value[:20] + "…"


def text_ahead(token: Piece) -> str:
    """What stands behind a token on its line, with the space before it."""
    value = ahead(token)
    return f" {value}" if value and text_behind(token)[:1].isspace() else value


def before(token: Piece) -> Span:
    """The place right before a token."""
    return Span(token.span.source, token.span.start, token.span.start)


def behind(token: Piece) -> Span:
    """The place right behind a token."""
    return Span(token.span.source, token.span.end, token.span.end)
