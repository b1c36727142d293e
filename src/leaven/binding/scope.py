"""The names of one recipe: its `arg`s, `let`s and imports, and the reports about it.

Decides what a name of the recipe means; what a catalog name means is left to the catalog.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from leaven.catalog import lookup
from leaven.catalog.card import Card
from leaven.catalog.layers import Layers
from leaven.catalog.user_code import ImportedModule, unseen_card
from leaven.catalog.values import UNKNOWN, Arg, FromData, Number, Unknown
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Spot
from leaven.language.source import Source, Span
from leaven.messages import names, suggestions, values

# How far `let`s and repetitions may expand. `lets.py` refuses a `let` that is too large on its own, before anything
# expands it; `Scope.can_expand` counts what is expanded, in pipelines, selectors, lists and calculations alike.
MAX_PARTS = 10_000  # of one value, with every `let` in it written out
MAX_TOTAL = 50_000  # of all expansions in a recipe: a `let` may be used often
MAX_LETS = 100  # that refer to each other in a row; keeps every later walk off Python's stack limit
MAX_DEPTH = 400  # of parts in parts, counting what a walk over them puts on Python's stack
MAX_NESTING = 90  # of brackets, a few less than a recipe may have: `show` writes expanded values inside of blocks

BOUND_BY_DATA = ("classes", "outputs", "channels")  # names that the data gives their values

T = TypeVar("T")


@dataclass(slots=True)
class Scope:
    """The meaning of a recipe's names, and the reports so far."""

    args: dict[str, Arg] = field(default_factory=dict)
    lets: dict[str, syntax.Let] = field(default_factory=dict)
    modules: dict[str, ImportedModule] = field(default_factory=dict)
    broken_names: set[str] = field(default_factory=set)
    outputs: int | None = None  # that the model needs
    has_classes: bool = True  # whether the outputs are classes
    channels: int | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    expanding: list[str] = field(default_factory=list)  # the `let`s that are being expanded, to find cycles
    expanded: int = 0  # parts of all expansions
    failed_lets: set[str] = field(default_factory=set)
    numbers: dict[str, Number | Unknown | None] = field(default_factory=dict)  # of `let`s, each calculated once
    used: set[str] = field(default_factory=set)
    measured: list[str] | None = None  # what scores there are, once the metrics are known
    layers: Layers | None = None  # of the model, where they are known
    model_name: str = "the model"
    requires_args: bool = True  # an `arg` without a default must be given
    _counted: int = field(default=0, init=False)  # how many of the reports are in `_error_starts`
    _error_starts: dict[Source, list[int]] = field(default_factory=dict, init=False)  # where errors begin

    def trial(self) -> "Scope":
        """A copy to try something with: what is reported there, or marked as used, is forgotten with it."""
        return replace(
            self,
            diagnostics=[],
            expanding=list(self.expanding),
            failed_lets=set(self.failed_lets),
            used=set(self.used),
        )

    # -- reports

    def add(self, report: Diagnostic) -> Unknown:
        """Note a report; the answer is the value of what could not be determined."""
        if report.id.startswith("unknown-") and (note := suggestions.note_on_letters(report)):
            report = replace(report, notes=(*report.notes, note))
        self.diagnostics.append(report)
        return UNKNOWN

    def nearest(self, word: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
        """The names that were likely meant, unless there are too many reports already."""
        if len(self.diagnostics) >= suggestions.MAX_SUGGESTIONS:
            return []
        return lookup.nearest(word, islice(candidates, suggestions.MAX_CANDIDATES), limit)

    def has_error_in(self, span: Span) -> bool:
        """Whether an error was reported inside a stretch of text: what else is wrong with it may follow from that."""
        for report in self.diagnostics[self._counted :]:
            if report.is_error and report.spots:
                place = report.spots[0].span
                insort(self._error_starts.setdefault(place.source, []), place.start)
        self._counted = len(self.diagnostics)
        starts = self._error_starts.get(span.source, [])
        at = bisect_left(starts, span.start)
        return at < len(starts) and starts[at] < span.end

    # -- names

    def from_data(self, use: syntax.Name) -> FromData | Unknown:
        """The number that the data gives a name; `classes` is reported where the data has none."""
        if use.path == "classes" and not self.has_classes:
            return self.add(names.no_classes(use))
        return FromData(use.path, self.channels if use.path == "channels" else self.outputs)

    def user_card(self, path: str) -> Card | Unknown | None:
        """The definition that `mine.Net` names; None if it is not a user's name, UNKNOWN if it can't be known."""
        alias, _, name = path.partition(".")
        imported = self.modules.get(alias)
        if imported is None:
            return UNKNOWN if alias in self.broken_names else None
        if imported.definitions is None:
            return UNKNOWN
        unseen = None if imported.definitions.is_complete else unseen_card(alias, name)
        return imported.definitions.cards.get(name) or unseen

    def report_undefined(self, name: syntax.Name) -> Unknown | None:
        """Report a name that an imported file does not define; None if it is not a user's name at all."""
        alias, dot, rest = name.path.partition(".")
        module = self.modules.get(alias) if dot else None
        if module is None:
            return None
        near = self.nearest(rest, module.definitions.cards if module.definitions else ())
        return self.add(names.not_in_module(name, module, near))

    # -- expansion of `let`s and repetitions

    def expand(self, use: syntax.Name, read: Callable[[syntax.Value], T | Unknown]) -> T | Unknown:
        """The value of a `let`, as `read` reads it; an error in it is reported once, with its first use."""
        name = use.path
        if name in self.failed_lets:
            return UNKNOWN
        if name in self.expanding:  # `let stem = stem`: among layers that is a word, elsewhere a cycle
            return self.add(names.circular_let([use], self.lets[name].name.span))
        self.used.add(name)
        before = len(self.diagnostics)
        self.expanding.append(name)
        value = read(self.lets[name].value)
        self.expanding.pop()
        if isinstance(value, Unknown):
            self.failed_lets.add(name)
            here = Spot(use.span, "used here")
            self.diagnostics[before:] = [replace(one, spots=(*one.spots, here)) for one in self.diagnostics[before:]]
        return value

    def can_expand(self, value: syntax.Value, parts: int = 1) -> bool:
        """Count parts of an expansion. Too many are reported, those of the whole recipe once."""
        if parts > MAX_PARTS:
            self.add(values.too_large(value, MAX_PARTS))
            return False
        self.expanded += parts
        if MAX_TOTAL < self.expanded <= MAX_TOTAL + parts:
            self.add(values.too_large_together(value, MAX_TOTAL))
        return self.expanded <= MAX_TOTAL
