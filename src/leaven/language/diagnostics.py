"""Diagnostics: what Leaven reports about a recipe, as values.

A `Diagnostic` is made where an error is found and returned with the result; only `report.py` turns it into text. It
does not know whether a terminal, an editor or a web page shows it.
"""

from collections.abc import Iterable
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

from leaven.language.fixes import Fix
from leaven.language.record import Record
from leaven.language.source import Span


class Severity(Enum):
    """A recipe with an error does not run; a warning is a likely mistake; a note is information."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Located(Protocol):
    """Anything that knows its place in a source, if it has one: a token, a node of the tree, the origin of a value."""

    @property
    def span(self) -> Span | None: ...


class Spot(NamedTuple):
    """A place in the source, with a short label."""

    span: Span
    label: str = ""


class Diagnostic(Record):
    """One report about a recipe. The first spot is where; the others are what it conflicts with."""

    id: str
    severity: Severity
    headline: str
    spots: tuple[Spot, ...] = ()
    notes: tuple[str, ...] = ()
    fix: Fix | None = None

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR


def error(
    id: str,
    headline: str,
    *places: tuple[Span | Located | None, str],
    notes: Iterable[str] = (),
    fix: Fix | str | None = None,
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    """A diagnostic. Places come with their labels; those that nobody wrote are left out. A string is advice."""
    located = [(place if isinstance(place, Span | None) else place.span, label) for place, label in places]
    spots = tuple(Spot(span, label) for span, label in located if span is not None)
    return Diagnostic(id, severity, headline, spots, tuple(notes), Fix(fix) if isinstance(fix, str) else fix)


warning = partial(error, severity=Severity.WARNING)
note = partial(error, severity=Severity.NOTE)


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.is_error for diagnostic in diagnostics)


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sorted by position, without duplicates."""
    firsts = {diagnostic: [spot.span for spot in diagnostic.spots[:1]] for diagnostic in diagnostics}
    ordered = sorted(firsts.items(), key=lambda pair: [(span.source.name, span.start) for span in pair[1]])
    return tuple(diagnostic for diagnostic, _ in ordered)
