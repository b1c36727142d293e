"""What models answer while one edit grows: a curve for each, and the point where the answer flips.

Decides which values are tried and how the flip point is found; the answers are those of `answers.py`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leaven.formats.finite_json import as_json
from leaven.lab.answers import TOP, Asked, Model, asked, largest
from leaven.lab.edits.edit import Edit, EditKind
from leaven.lab.edits.edited import Edited, as_edited
from leaven.lab.edits.kinds import KINDS, kind_of
from leaven.lab.edits.text_kinds import word_count
from leaven.pictures.sweeps import Panel, draw_sweep
from leaven.runtime.failures import Failure
from leaven.tasks.protocol import Prediction
from leaven.tasks.reports import aligned, finite
from leaven.terminal.visible import visible

STEPS = 21  # values of a sweep
MOST_STEPS = 1000
_COARSE = 7  # values on each side where the smallest flip is searched
_FEW = 11  # rows of a table on the screen


@dataclass(frozen=True)
class Flip:
    """A change of the input with which a model no longer gives the same answer."""

    model: str
    given: Edited  # with the edit that flips it
    at: float
    before: str
    after: str
    size: float  # as a share of the range of the edit, from the value that changes nothing

    @property
    def words(self) -> str:
        return f"{self.before} → {self.after} {self.given.edits[-1].words}"

    def __str__(self) -> str:
        """For a terminal."""
        return visible(f"{self.model}: {self.words} ({100 * self.size:.2g} % of the range that was tried)")

    def as_python(self) -> str:
        """A program that asks the model about the input that flips its answer."""
        edited = self.given.as_python("given")
        loads = f"import leaven\nfrom leaven.lab import edit\n\nmodel = leaven.load({self.model!r})\n"
        return f"{loads}{edited}answer = model(given)\nprint(answer)\n"

    def as_recipe(self) -> str | None:
        """The transforms for `train` that prepare a model for it; None where there are none."""
        return self.given.as_recipe()

    def picture(self) -> bytes:
        """The changed image as the content of a PNG file."""
        return self.given.picture()

    @as_json
    def to_json(self) -> dict[str, Any]:
        said = {"model": self.model, "at": self.at, "before": self.before, "after": self.after}
        return {**said, "size": self.size, **self.given.to_json()}

    def __repr__(self) -> str:
        return f"<Flip: {visible(self.words)}>"


@dataclass(frozen=True, repr=False)
class Curve:
    """The answers of one model at each value, its numbers by name, and where the answer flips."""

    model: Asked
    values: tuple[float, ...]
    answers: tuple[str, ...]
    numbers: dict[str, tuple[float, ...]]
    flips: tuple[Flip, ...]
    example: Prediction

    @as_json
    def to_json(self) -> dict[str, Any]:
        numbers = [
            {"name": name, "values": list(finite({str(at): each for at, each in enumerate(row)}).values())}
            for name, row in self.numbers.items()
        ]
        flips = [one.to_json() for one in self.flips]
        return {"model": self.model.name, "answers": list(self.answers), "numbers": numbers, "flips": flips}

    def __repr__(self) -> str:
        return f"<Curve of {visible(self.model.name)}: {len(self.values)} values, {len(self.flips)} flips>"


@dataclass(frozen=True, repr=False)
class Curves:
    """A curve for each model over the values of one edit: `vary(["a.bundle", "b.bundle"], "photo.jpg", "rotate")`."""

    given: Edited  # without the varied edit
    kind: EditKind
    values: tuple[float, ...]
    each: tuple[Curve, ...]

    @property
    def words(self) -> str:
        """The flips of each model in one line."""
        return f"{self.given.words}, {self.kind.name}: " + "; ".join(
            f"{one.model.name}: {', '.join(flip.words for flip in one.flips) or 'the answer stays the same'}"
            for one in self.each
        )

    @property
    def axis(self) -> str:
        """The name of the varied argument."""
        return f"{self.kind.name} ({self.kind.parameters[0].name})"

    def __str__(self) -> str:
        """For a terminal."""
        return "\n\n".join("\n".join(self._lines(one)) for one in self.each)

    def _lines(self, curve: Curve) -> Iterator[str]:
        flips = [flip.words for flip in curve.flips] or [f"the answer stays the same: {curve.answers[0]}"]
        yield from (f"{visible(curve.model.name)}: {visible(each)}" for each in flips)
        every = max(1, -(-len(self.values) // _FEW)) if not self.kind.by_word else 1
        names = list(curve.numbers)[:3]
        rows = [
            [f"{self.values[at]:.4g}", curve.answers[at], *(
                curve.example.shown_number(name, curve.numbers[name][at]) for name in names
            )]
            for at in range(0, len(self.values), every)
        ]  # fmt: skip
        yield from (f"  {line}" for line in aligned([[self.kind.name, "answer", *names], *rows]))

    def __repr__(self) -> str:
        return f"<Curves: {visible(self.words)}>"

    def as_python(self) -> str:
        """A program that computes the same curves."""
        first = self.each[0]
        models = ", ".join(repr(one.model.name) for one in self.each)
        base = self.given.as_python("given").replace(".value\n", "\n")
        imports = f"from leaven.lab import {'edit, ' if self.given.edits else ''}vary\n\n"
        values = f", values={list(self.values)!r}"
        call = f"vary([{models}], given, {self.kind.name!r}{values}, k={len(first.numbers)})"
        return f"{imports}{base}curves = {call}\nprint(curves)\n"

    def as_recipe(self) -> str | None:
        """The transforms for `train` that reach as far as the nearest flip; None where there are none."""
        flips = sorted((flip for one in self.each for flip in one.flips), key=lambda flip: flip.size)
        return flips[0].given.as_recipe() if flips else None

    @as_json
    def to_json(self) -> dict[str, Any]:
        curves = [one.to_json() for one in self.each]
        said = {"vary": self.kind.name, "neutral": self.kind.neutral, "values": list(self.values)}
        return {**self.given.to_json(), **said, "curves": curves, "recipe": self.as_recipe()}

    def picture(self) -> bytes:
        """The curves as the content of a PNG file."""
        shares = self.each[0].example.are_shares
        factor = 100 if shares else 1
        panels = [
            Panel(
                one.model.name,
                {name: [factor * each for each in row] for name, row in one.numbers.items()},
                [(flip.at, flip.after) for flip in one.flips],
            )
            for one in self.each
        ]
        return draw_sweep(panels, self.values, self.axis, "per cent" if shares else "", self.kind.neutral)


def vary(
    models: Model | Sequence[Model],
    given: Any,
    name: str,
    between: tuple[float, float] | None = None,
    *,
    values: Sequence[float] = (),
    steps: int = STEPS,
    k: int = TOP,
) -> Curves:
    """A curve for each model while the first argument of an edit goes through a range, and where the answer flips.

    `given` is a photo or a text, or what `edit` returns: then the other edits stay. Of an edit of one word, each word
    is tried.
    """
    base, kind, several = as_edited(given), kind_of(name), asked(models)
    for model in several:
        model.check(kind)
    tried = tuple(sorted(values)) if values else tuple(_values(kind, base, between, steps))
    return Curves(base, kind, tried, tuple(_curve(one, base, kind, tried, k) for one in several))


def _values(kind: EditKind, base: Edited, between: tuple[float, float] | None, steps: int) -> list[float]:
    """The values that are tried, in order; each once, where they are whole numbers."""
    if kind.by_word:
        if (count := word_count(base.value)) < 2:
            raise Failure(f"`{kind.name}` is tried with each word, but the text has only {count}")
        return [float(at) for at in range(1, count + 1)]
    if kind.sweep is None:
        could = ", ".join(name for name, one in KINDS.items() if one.sweep or one.by_word)
        raise Failure(f"`{kind.name}` can't be varied", f"it has no single strength; these have: {could}")
    if not 2 <= steps <= MOST_STEPS:
        raise Failure(f"a sweep has 2 to {MOST_STEPS:,} steps, not {steps}")
    low, high = between or kind.sweep
    found = [low + (high - low) * at / (steps - 1) for at in range(steps)]
    is_count = kind.parameters[0].type == "count"
    return sorted({float(round(each)) for each in found} if is_count else {round(each, 10) for each in found})


def _curve(model: Asked, base: Edited, kind: EditKind, values: Sequence[float], k: int) -> Curve:
    reference = model.predict(base)
    found = {value: model.predict(base.then(_edit(kind, value))) for value in values}
    flips = tuple(_flips(model, base, kind, reference, found))
    names = _tracked([reference, *found.values()], [flip.after for flip in flips], k)
    numbers = {name: tuple(one.numbers().get(name, 0.0) for one in found.values()) for name in names}
    return Curve(model, tuple(values), tuple(one.answer for one in found.values()), numbers, flips, reference)


def _edit(kind: EditKind, value: float) -> Edit:
    return kind.with_arguments(int(value) if kind.parameters[0].type in ("count", "word") else value)


def _tracked(predictions: Sequence[Prediction], flipped: Sequence[str], k: int) -> list[str]:
    """The names whose numbers are shown: that of the first answer, those it flips to, then those ever largest."""
    first, *others = predictions
    names = largest(first.numbers(), first, 1)
    best: dict[str, float] = {}
    for one in others:
        for name, number in one.numbers().items():
            best[name] = max(best.get(name, float("-inf")), number)
    names += [name for name in flipped if name in best]
    return list(dict.fromkeys([*names, *largest(best, first, k)]))[:k]


# -- flips


def _flips(
    model: Asked, base: Edited, kind: EditKind, reference: Prediction, found: dict[float, Prediction]
) -> Iterator[Flip]:
    """The nearest flip on each side of the value that changes nothing; of words, each that flips the answer."""
    if kind.by_word:
        for value, one in found.items():
            if not one.is_same(reference):
                yield _flip(model, base, kind, value, reference, one, 1 / len(found))
        return
    assert kind.neutral is not None, "every kind with a range has a value that changes nothing"
    neutral = kind.neutral
    for side in (
        sorted((each for each in found if each <= neutral), reverse=True),
        sorted(each for each in found if each >= neutral),
    ):
        first = next((at for at, value in enumerate(side) if not found[value].is_same(reference)), None)
        if first is None:
            continue
        near = side[first - 1] if first else neutral
        value, flipped = _halved(model, base, kind, reference, near, side[first], found[side[first]])
        low, high = kind.sweep or (0.0, 1.0)
        size = abs(value - neutral) / (abs((high if value >= neutral else low) - neutral) or 1.0)
        yield _flip(model, base, kind, value, reference, flipped, size)


def _halved(
    model: Asked, base: Edited, kind: EditKind, reference: Prediction, same: float, flipped: float, answer: Prediction
) -> tuple[float, Prediction]:
    """The value nearest to one with the same answer at which it has flipped, with its prediction."""
    while (middle := _between(kind, same, flipped)) not in (same, flipped):
        tried = model.predict(base.then(_edit(kind, middle)))
        if tried.is_same(reference):
            same = middle
        else:
            flipped, answer = middle, tried
    return flipped, answer


def _between(kind: EditKind, one: float, other: float) -> float:
    """The middle of two values, to a thousandth of the range of the edit; of whole numbers, one of them."""
    assert kind.sweep is not None
    low, high = kind.sweep
    is_count = kind.parameters[0].type == "count"
    return round((one + other) / 2, 0 if is_count else 3 - math.floor(math.log10(high - low)))


def _flip(
    model: Asked, base: Edited, kind: EditKind, value: float, before: Prediction, after: Prediction, size: float
) -> Flip:
    return Flip(model.name, base.then(_edit(kind, value)), value, before.answer, after.answer, size)


def flips(model: Model, given: Any, names: Sequence[str] = ()) -> Iterator[Flip]:
    """The flips of a model by one edit after another, without names by all that fit the input."""
    one, *others = asked(model)
    if others:
        raise Failure("flips are looked for with one model at a time", f"ask {visible(one.name)} alone first")
    base = as_edited(given)
    noun = one.bundle.manifest.takes.noun
    kinds = [kind_of(name) for name in names] or [
        kind for kind in KINDS.values() if kind.noun == noun and (kind.sweep is not None or kind.by_word)
    ]
    reference = one.predict(base)
    for kind in kinds:
        one.check(kind)
        if kind.by_word and word_count(base.value) < 2:
            continue
        values = _values(kind, base, None, 2 * _COARSE + 1)
        found = {value: one.predict(base.then(_edit(kind, value))) for value in values}
        yield from _flips(one, base, kind, reference, found)


def smallest_flip(
    model: Model, given: Any, names: Sequence[str] = (), *, on_step: Callable[[Flip], object] = lambda flip: None
) -> Flip | None:
    """The smallest single edit that changes a model's answer, as a share of the edit's range; None if there is none.

    `on_step` is called with every flip that is found on the way.
    """
    smallest: Flip | None = None
    for flip in flips(model, given, names):
        on_step(flip)
        smallest = flip if smallest is None or flip.size < smallest.size else smallest
    return smallest
