"""Where a report points: the places at which values were written."""

from leaven.catalog.values import Invocation, Origin, Setting, Written
from leaven.language.diagnostics import Spot
from leaven.language.source import Span


def span_of(origin: Origin) -> Span:
    """Where something that has no default was written."""
    assert isinstance(origin, Written)
    return origin.span


def setting_span(setting: Setting, call: Invocation) -> Span:
    """Where an argument was written; the call where it was not."""
    return setting.origin.span if isinstance(setting.origin, Written) else span_of(call.origin)


def spots(*labelled: tuple[Origin, str]) -> list[Spot]:
    """The places that were written, each with its label; defaults have none."""
    return [Spot(origin.span, label) for origin, label in labelled if isinstance(origin, Written)]
