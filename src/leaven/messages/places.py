"""Where a report points: the places at which values were written."""

from leaven.catalog.values import Invocation, Origin, Setting, Written
from leaven.language.diagnostics import Diagnostic, Spot, error
from leaven.language.source import Span


def span_of(origin: Origin) -> Span:
    """Where something that has no default was written."""
    assert isinstance(origin, Written)
    return origin.span


def setting_span(setting: Setting, call: Invocation) -> Span:
    """Where an argument was written; the call where it was not."""
    return setting.origin.span if isinstance(setting.origin, Written) else span_of(call.origin)


def repeated(id: str, headline: str, again: Span, first: Span, fix: str) -> Diagnostic:
    """The report that something is there twice."""
    return error(id, headline, Spot(again, "again here"), Spot(first, "first here"), fix=fix)


def spots(*labelled: tuple[Origin, str]) -> list[Spot]:
    """The places that were written, each with its label; defaults have none."""
    return [Spot(origin.span, label) for origin, label in labelled if isinstance(origin, Written)]
