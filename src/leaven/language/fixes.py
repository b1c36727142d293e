"""Fixes as data: the edits that remove an error, and which part of the edited text the help quotes.

A fix is either edits, which an editor can apply and the checker has tried (`rules/tried_fixes.py`), or advice in words.
The words of a fix with edits are made from the edited text, so that what a report quotes is what the edit writes.
"""

from collections.abc import Iterable

from leaven.language.record import Record
from leaven.language.source import Span

_LONGEST = 120  # characters of a quoted text; a longer one is no help


class Edit(Record):
    """Replace `span` with `text`. With `is_option`, the text replaces the whole option, its flag included."""

    span: Span
    text: str
    is_option: bool = False


class Fix(Record):
    """How to fix it: `caveat`, `before`, then the part `shown` as it reads after the edits, then `after`.

    Without edits it is advice. Where trying the edits shows that they leave an error, `otherwise` is the fix instead,
    if there is any, or what is advised about that error. `remains` is a fact that no edit can change: a file that does
    not exist.
    """

    before: str
    edits: tuple[Edit, ...] = ()
    shown: Span | None = None
    after: str = ""
    otherwise: "Fix | str" = ""
    caveat: str = ""
    remains: str = ""
    is_general: bool = False  # advice that would be the same for any other word

    @property
    def message(self) -> str:
        quoted = f"`{shortened(edited(self.shown, self.edits))}`" if self.shown is not None else ""
        remains = f"; then also fix: {self.remains}" if self.remains else ""
        return f"{self.caveat}{self.before}{quoted}{self.after}{remains}"


def write(
    span: Span, text: str, before: str = "write ", shown: Span | None = None, after: str = "", otherwise: Fix | str = ""
) -> Fix:
    """Put a text in the place of what was written; quotes that text, or more around it."""
    return Fix(before, (Edit(span, text),), shown or span, after, otherwise)


def write_option(span: Span, words: str, before: str = "write ", after: str = "") -> Fix:
    """Give other options in the place of the one that has this span."""
    return Fix(before, (Edit(span, words, is_option=True),), span, after)


def remove(span: Span, before: str, after: str = "") -> Fix:
    """Remove what was written."""
    return Fix(before, (Edit(span, ""),), after=after)


def edited(span: Span, edits: Iterable[Edit]) -> str:
    """The text of a span after the edits in it."""
    text, at = "", span.start
    for edit in sorted(edits, key=lambda edit: edit.span.start):
        if edit.is_option:
            return edit.text
        if edit.span.source is span.source and span.start <= edit.span.start and edit.span.end <= span.end:
            text += span.source.text[at : edit.span.start] + edit.text
            at = edit.span.end
    return text + span.source.text[at : span.end]


def shortened(text: str) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
