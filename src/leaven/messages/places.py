"""Where a report points: the places at which values were written."""

from leaven.catalog.value_text import quoted
from leaven.catalog.values import Invocation, Origin, Setting, Written
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.source import Span


def span_of(origin: Origin) -> Span:
    """Where something that has no default was written."""
    assert isinstance(origin, Written)
    return origin.span


def setting_span(setting: Setting, call: Invocation) -> Span:
    """Where an argument was written; the call where it was not."""
    return setting.span or span_of(call.origin)


def written_in(text: str, place: Span) -> Span | None:
    """Where a string is written within a place; None where it is not, as in a `let`."""
    at = place.text.find(quoted(text))
    return place.source.span(place.start + at, place.start + at + len(quoted(text))) if at >= 0 else None


def repeated(id: str, headline: str, again: Span, first: Span, fix: str) -> Diagnostic:
    """The report that something is there twice."""
    return error(id, headline, (again, "again here"), (first, "first here"), fix=fix)
