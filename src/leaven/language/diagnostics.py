"""What Leaven says about a recipe, as a value.

A `Diagnostic` is built where a mistake is found, travels as part of a phase's result, and is turned into text
only in `report.py`. It never knows whether a terminal, an editor or a web page will show it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from leaven.language.source import Span


class Severity(Enum):
    """An error stops the recipe; a warning is likely a mistake; a note tells what is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the text, with a few words about it."""

    span: Span
    label: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """Put `text` in the place of `span`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """How to fix it: one sentence that holds the edit, and the edit itself where a program could apply it."""

    message: str
    edit: Edit | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fact about a recipe. The first spot is the place; the others are what it disagrees with."""

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
    *spots: Spot | Span,
    notes: Iterable[str] = (),
    fix: Fix | str | None = None,
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    """A diagnostic, with plain spans taken as spots without a label and a plain text as a fix without an edit."""
    return Diagnostic(
        id=id,
        severity=severity,
        headline=headline,
        spots=tuple(Spot(spot) if isinstance(spot, Span) else spot for spot in spots),
        notes=tuple(notes),
        fix=Fix(fix) if isinstance(fix, str) else fix,
    )


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.is_error for diagnostic in diagnostics)


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sorted by place, each said once."""
    unique = dict.fromkeys(diagnostics)

    def place(diagnostic: Diagnostic) -> tuple[str, int]:
        if not diagnostic.spots:
            return ("", 0)
        span = diagnostic.spots[0].span
        return (span.source.name, span.start)

    return tuple(sorted(unique, key=place))
