"""The names of one recipe: its `arg`s, `let`s and imports, and the desk on which reports are gathered.

Decides what a name of the recipe stands for; what a catalog name stands for is left to the catalog.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain, islice
from typing import Any

from leaven.catalog import lookup
from leaven.catalog.card import Card
from leaven.catalog.layers import Layers
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Severity, Spot, error
from leaven.language.source import Source, Span
from leaven.recipe import lookalikes
from leaven.recipe.modules import Definitions, unseen_card
from leaven.recipe.recipe import Arg, FromData, UserModule

# How many mistakes get similar names, out of how many: looking for them takes long, and nobody reads that far.
MOST_HELPED, MOST_COMPARED = 50, 5_000
BOUND_BY_DATA = ("classes", "channels")  # names that the data gives their values


class Unknown(Enum):
    """Stands for a value that could not be worked out. The reason is reported already; nothing more is said of it."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


def nearest(word: str, candidates: Iterable[str], mistakes: int, limit: int = 3) -> list[str]:
    """The names that were likely meant, where there are not too many mistakes already."""
    return lookup.nearest(word, islice(candidates, MOST_COMPARED), limit) if mistakes < MOST_HELPED else []


@dataclass(slots=True)
class ImportedModule:
    """A module of the user's; `definitions` is missing where the file could not be read."""

    module: UserModule
    definitions: Definitions | None
    span: Span


@dataclass(slots=True)
class Scope:
    """What the names of a recipe stand for, and what has been found wrong so far."""

    args: dict[str, Arg] = field(default_factory=dict)
    lets: dict[str, syntax.Let] = field(default_factory=dict)
    modules: dict[str, ImportedModule] = field(default_factory=dict)
    broken_names: set[str] = field(default_factory=set)
    classes: int | None = None
    channels: int | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    unfolding: list[str] = field(default_factory=list)  # the `let`s being worked out, to find circles
    failed_lets: set[str] = field(default_factory=set)
    numbers: dict[str, Any] = field(default_factory=dict)  # what each `let` comes to, worked out once
    used: set[str] = field(default_factory=set)
    pieces: int = 0  # of selectors that came from `let`s
    measured: list[str] | None = None  # what scores there are, once the metrics are known
    layers: Layers | None = None  # of the model, where they are known
    model_name: str = "the model"
    requires_args: bool = True  # an `arg` without a default must be given
    _counted: int = field(default=0, init=False)  # how many of the reports are in `_blamed`
    _blamed: dict[Source, list[int]] = field(default_factory=dict, init=False)  # where errors begin

    def trial(self) -> "Scope":
        """A copy to try something with: what is reported there, or marked as used, is forgotten with it."""
        return replace(
            self,
            diagnostics=[],
            unfolding=list(self.unfolding),
            failed_lets=set(self.failed_lets),
            used=set(self.used),
        )

    def report(self, id: str, headline: str, *spots: Spot | Span, **more: Any) -> Unknown:
        """Note a mistake; the answer is the value that stands for what could not be worked out."""
        report = error(id, headline, *spots, **more)
        if id.startswith("unknown-") and (note := lookalikes.note_of(report)):
            report = replace(report, notes=(*report.notes, note))
        self.diagnostics.append(report)
        return UNKNOWN

    def note(self, id: str, headline: str, *spots: Spot | Span, **more: Any) -> None:
        self.diagnostics.append(error(id, headline, *spots, severity=Severity.NOTE, **more))

    def warn(self, id: str, headline: str, *spots: Spot | Span, **more: Any) -> None:
        self.diagnostics.append(error(id, headline, *spots, severity=Severity.WARNING, **more))

    def nearest(self, word: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
        """The names that were likely meant, as long as anybody reads on."""
        return nearest(word, candidates, len(self.diagnostics), limit)

    def is_blamed(self, span: Span) -> bool:
        """Whether a mistake was reported inside a stretch of text: what else is wrong with it may follow from that."""
        for report in self.diagnostics[self._counted :]:
            if report.is_error and report.spots:
                place = report.spots[0].span
                insort(self._blamed.setdefault(place.source, []), place.start)
        self._counted = len(self.diagnostics)
        starts = self._blamed.get(span.source, [])
        at = bisect_left(starts, span.start)
        return at < len(starts) and starts[at] < span.end

    def from_data(self, name: str) -> FromData:
        return FromData(name, self.classes if name == "classes" else self.channels)

    def own_names(self) -> Iterator[str]:
        return chain(self.args, self.lets, BOUND_BY_DATA)

    def user_card(self, path: str) -> Card | Unknown | None:
        """The definition that `mine.Net` names; None if it is not a user's name at all, UNKNOWN if not to be known."""
        alias, _, name = path.partition(".")
        imported = self.modules.get(alias)
        if imported is None:
            return UNKNOWN if alias in self.broken_names else None
        if imported.definitions is None:
            return UNKNOWN
        unseen = None if imported.definitions.is_complete else unseen_card(alias, name)
        return imported.definitions.cards.get(name) or unseen
