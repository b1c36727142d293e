"""The way of one sample: what every transform makes of it, with which arguments.

The transforms are those of the program, one after the other; each is called once, watched, on what the one before has
returned. What is tried besides (how long it takes, what it leaves of the image) is done with copies, and draws the same
random numbers.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from torchvision.transforms import v2 as T

from leaven.formats.finite_json import as_json
from leaven.formats.target import Target
from leaven.formats.texts import Text, parts_of
from leaven.lab.tracing.area import Area, PlaceMap, moved_by
from leaven.lab.tracing.arguments import Applied, watching
from leaven.lab.tracing.contents import Content, content_of, pixels
from leaven.runtime.data.loading import copied
from leaven.runtime.data.places import size_of
from leaven.runtime.data.samples import Samples
from leaven.runtime.data.texts import Tokenizer
from leaven.runtime.failures import Failure, unexpected
from leaven.runtime.seeding import are_same_generators, generators, set_generators

LOADED = "as loaded"


@dataclass(frozen=True)
class StepName:
    """A transform as the recipe names it, and the line that does; empty for a part of the next one."""

    text: str
    line: int | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """A sample after a transform, or as it was loaded."""

    name: str
    line: int | None
    content: Content
    applied: tuple[Applied, ...] = ()
    is_random: bool = False  # whether random numbers were drawn
    milliseconds: float | None = None
    area: Area | None = None  # that is left of the original image, where it is known
    objects: int | None = None  # boxes, or classes of a mask, that moved along
    marked: str = ""  # these in words
    text: str | None = None  # of a text
    tokens: tuple[tuple[str, int], ...] = ()  # with their ids
    cut: tuple[str, ...] = ()  # the tokens that are cut off
    pixels: np.ndarray | None = None
    value: Any = None
    is_stored: bool = False  # computed once per image in a run

    @property
    def is_known(self) -> bool:
        """Whether the arguments are known, as drawn."""
        return not self.is_random or (bool(self.applied) and all(one.is_known for one in self.applied))

    @property
    def drawn(self) -> str:
        """The arguments as drawn, in words."""
        if not self.is_known:
            return "drawn at random; arguments not known"
        words = " → ".join(one.words for one in self.applied if one.words)
        return words or ("random values, one by one" if self.is_random else "")

    @property
    def about(self) -> str:
        """What comes out, in words."""
        if self.tokens:
            return f"{len(self.tokens)} tokens" + (f", {len(self.cut)} cut off" if self.cut else "")
        if self.text is not None:
            return f"{len(self.text)} letters"
        return self.content.dimensions

    def __repr__(self) -> str:
        return f"<Step {self.name}: {self.about}{f'; {self.drawn}' if self.drawn else ''}>"

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "line": self.line,
            "drawn": self.drawn,
            "known": self.is_known,
            "random": self.is_random,
            "arguments": [one.to_json() for one in self.applied],
            "content": self.content.to_json(),
            "milliseconds": self.milliseconds,
            "area": self.area.to_json() if self.area is not None else None,
            "objects": self.objects,
            "marked": self.marked,
            "text": self.text,
            "tokens": [{"token": token, "id": number} for token, number in self.tokens],
            "cut": list(self.cut),
            "stored": self.is_stored,
        }


@dataclass(frozen=True)
class Way:
    """How the steps of samples are made: samples and target of the data, and the recipe's names of the transforms."""

    samples: Samples
    target: Target | None
    transforms: Sequence[Any]
    names: Sequence[StepName]
    stored: int = 0  # of the first transforms are computed once per image
    is_timed: bool = True
    about: str = ""  # the part of the recipe that has the transforms, for reports

    def steps(self, given: tuple[Any, ...]) -> list[Step]:
        """The sample as loaded and after each named transform; the generators are as its epoch seeds them."""
        places = _places_of(given[0])
        steps = [self._step(StepName(LOADED), given, (), places=places)]
        applied: list[Applied] = []
        milliseconds, is_random = 0.0, False
        for at, (name, transform) in enumerate(zip(self.names, self.transforms, strict=True)):
            try:
                done = _apply(transform, given, places, is_timed=self.is_timed)
            except Failure:
                raise
            except Exception as problem:  # of user code
                raise unexpected(problem, self.about) from None
            given, places = done.result, done.places
            applied, is_random = [*applied, *done.applied], is_random or done.is_random
            milliseconds += done.milliseconds
            if name.text:
                more = {"applied": tuple(applied), "is_random": is_random, "milliseconds": milliseconds}
                is_stored = at < self.stored
                before = self.transforms[: at + 1]
                steps.append(self._step(name, given, before, places=places, is_stored=is_stored, **more))
                applied, milliseconds, is_random = [], 0.0, False
        return steps

    def _step(
        self, name: StepName, given: tuple[Any, ...], before: Sequence[Any], *, places: "_Places | None", **more: Any
    ) -> Step:
        image, *moved = given
        shown = pixels(image, before)
        objects, marked = None, ""
        if moved and self.target is not None:
            one = self.samples.targets([tuple(moved)], [None])[0]
            shown = shown if shown is None else self.samples.shown(shown, one, self.target)
            marked, objects = self.samples.caption(one, self.target), self.samples.count(one)
        area = places.map.area(places.moved) if places is not None else None
        return Step(
            name.text, name.line, content_of(image), area=area, objects=objects, marked=marked, pixels=shown,
            value=image, **more,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Places:
    """The map of places of the original image, as far as it has moved."""

    map: PlaceMap
    moved: Any


def _places_of(image: Any) -> _Places | None:
    if content_of(image).size is None:
        return None
    found = PlaceMap(size_of(image))
    return _Places(found, found.start)


@dataclass(frozen=True, eq=False)
class _Done:
    """A transform that was applied."""

    result: tuple[Any, ...]
    places: _Places | None
    applied: tuple[Applied, ...]
    is_random: bool
    milliseconds: float


def _apply(transform: Any, given: tuple[Any, ...], places: _Places | None, *, is_timed: bool) -> _Done:
    twin = copied(transform)  # as it is before it is called
    own = deepcopy(given)  # a transform may change the image that it is given
    before = generators()
    with watching() as watched:
        began = time.perf_counter()
        made = transform(*own)
        seconds = time.perf_counter() - began
    after = generators()
    result = tuple(made) if len(given) > 1 else (made,)
    if is_timed and twin is not transform:
        set_generators(before)
        seconds = min(seconds, _seconds_of(copied(twin), deepcopy(given)))
    moved = None
    if places is not None and isinstance(transform, T.Transform) and twin is not transform:
        set_generators(before)
        moved = _moved(twin, given, result, places)
    set_generators(after)
    applied = tuple(watched.applied)
    if not isinstance(transform, T.Transform):
        applied = (Applied(_name_of(transform), None, inside=list(applied)),)
    return _Done(result, moved, applied, not are_same_generators(before, after), 1000 * seconds)


def _seconds_of(transform: Callable[..., Any], given: tuple[Any, ...]) -> float:
    began = time.perf_counter()
    with suppress(Exception):  # code that can be called once
        transform(*given)
    return time.perf_counter() - began


def _moved(transform: Any, given: tuple[Any, ...], result: tuple[Any, ...], places: _Places) -> _Places | None:
    """The map of places after a transform; of one that can't move it, the same where the image keeps its size."""
    moved = moved_by(transform, deepcopy(given), places.moved)
    if moved is None and size_of(given[0]) == size_of(result[0]):
        moved = places.moved
    return None if moved is None or tuple(moved.shape[:-3:-1]) != size_of(result[0]) else _Places(places.map, moved)


def _name_of(transform: Any) -> str:
    return getattr(transform, "__name__", type(transform).__name__)


# -- texts


def text_steps(tokenizer: Tokenizer, text: Text, name: StepName) -> list[Step]:
    """A text as it is read, as the tokenizer normalises it, its tokens, and those that are left."""
    began = time.perf_counter()
    kept = tokenizer(text)
    milliseconds = 1000 * (time.perf_counter() - began)
    steps = [Step(LOADED, None, _LETTERS, text=_joined(text))]
    normalised = tokenizer.normalised(text)
    if normalised is not None and normalised != text:
        steps.append(Step("normalised", name.line, _LETTERS, text=_joined(normalised)))
    whole, ids = tokenizer.whole(text), kept["input_ids"].tolist()
    named = tuple(zip(tokenizer.tokens(whole), whole["input_ids"].tolist(), strict=True))
    left = _left_of([number for _, number in named], ids)
    content = Content("tokens", tuple(kept["input_ids"].shape))
    cut = tuple(token for (token, _), is_left in zip(named, left, strict=True) if not is_left)
    steps.append(Step(name.text, name.line, content, milliseconds=milliseconds, tokens=named, value=whole))
    if cut:
        own = tuple(zip(tokenizer.tokens(kept), ids, strict=True))
        about = f"cut off at {tokenizer.max_length} tokens"
        steps.append(Step(about, name.line, content, tokens=own, cut=cut, value=kept))
    return steps


_LETTERS = Content("text")


def _joined(text: Text) -> str:
    return " | ".join(parts_of(text))


def _left_of(whole: Sequence[int], kept: Sequence[int]) -> list[bool]:
    """For each token whether it is among those that are kept, which are in the same order."""
    at, left = 0, []
    for number in whole:
        is_next = at < len(kept) and kept[at] == number
        left.append(is_next)
        at += is_next
    return left
