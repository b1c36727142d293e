"""The answers of one or several models to an input: before and after its edits, the difference, and the agreement.

Decides how answers are compared and told; what an answer is, is decided by the task of each model. Every input is a
batch of its own, so that the same question has the same answer to the last bit.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from PIL import Image

from leaven.bundle import Bundle
from leaven.formats.agreement import agreement
from leaven.formats.finite_json import as_json
from leaven.lab.edits.edit import EditKind, written
from leaven.lab.edits.edited import Edited, as_edited, edit
from leaven.lab.subject import Subject
from leaven.runtime.failures import Failure
from leaven.tasks.protocol import Prediction
from leaven.tasks.reports import aligned, finite
from leaven.terminal.visible import visible

Model = str | os.PathLike[str] | Subject | Bundle
TOP = 5


@dataclass(frozen=True)
class Asked:
    """A model that is asked, with the name by which it is loaded again."""

    name: str
    bundle: Bundle
    trust_code: bool = False

    def predict(self, given: Edited) -> Prediction:
        """The prediction for an input alone."""
        for one in given.edits:
            self.check(one.kind)
        answer = next(self.bundle.each([given.value]))
        if isinstance(answer, Failure):
            raise answer
        return answer

    def check(self, kind: EditKind) -> None:
        """A Failure where such an edit is not for the inputs of the model."""
        noun = self.bundle.manifest.takes.noun
        if kind.noun != noun:
            raise Failure(f"`{kind.name}` is for {kind.noun}s, but {visible(self.name)} takes {noun}s")

    def as_python(self, variable: str) -> str:
        """A line of Python that loads the model."""
        trust = ", trust_code=True" if self.trust_code else ""
        return f"{variable} = leaven.load({self.name!r}{trust})\n"


def asked(models: Model | Sequence[Model]) -> tuple[Asked, ...]:
    """The models that are meant, each once."""
    several = [models] if isinstance(models, str | os.PathLike | Subject | Bundle) else list(models)
    if not several:
        raise Failure("there is no model to ask")
    found: dict[str, Asked] = {}
    for model in several:
        one = _asked(model)
        found.setdefault(one.name, one)
    return tuple(found.values())


def _asked(model: Model) -> Asked:
    if isinstance(model, Bundle):
        return Asked(os.fspath(model.path), model)
    subject = model if isinstance(model, Subject) else Subject(model)
    return Asked(subject.name, subject.model, subject.trust_code)


@dataclass(frozen=True)
class Change:
    """One of the numbers of a prediction, before and after; None where a model did not tell it."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float:
        return (self.after or 0.0) - (self.before or 0.0)


@dataclass(frozen=True, repr=False)
class Answer:
    """The prediction of one model before the edits and after; the same where nothing is edited."""

    model: Asked
    before: Prediction
    after: Prediction
    k: int = TOP
    is_moved: bool = False  # what is in the image has another place than before

    @property
    def is_flipped(self) -> bool:
        """Whether the answer is no longer the same."""
        return not self.after.is_same(self.before)

    @property
    def changes(self) -> list[Change]:
        """The numbers that were largest after or before, in this order."""
        before, after = self.before.numbers(), self.after.numbers()
        names = dict.fromkeys([*largest(after, self.after, self.k), *largest(before, self.before, self.k)])
        return [Change(name, before.get(name), after.get(name)) for name in names]

    @property
    def agreement(self) -> str:
        """How far the places of objects or pixels are as before, in words; empty where there is nothing to say."""
        if not self.after.has_places:
            return ""
        if self.is_moved:
            return "places are not compared: the edits move what is in the image"
        return self.after.agreement(self.before)

    @property
    def words(self) -> str:
        """`cat → dog`, or `cat`."""
        return f"{self.before.answer} → {self.after.answer}" if self.is_flipped else self.after.answer

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model.name,
            "before": self.before.to_json(self.k),
            "after": self.after.to_json(self.k),
            "answer": {"before": self.before.answer, "after": self.after.answer, "flipped": self.is_flipped},
            "changes": [
                {"name": one.name} | finite({"before": _or_nan(one.before), "after": _or_nan(one.after)})
                | finite({"difference": one.difference})
                for one in self.changes
            ],
            "agreement": self.agreement,
        }  # fmt: skip

    def lines(self, *, is_edited: bool) -> list[str]:
        """A table of the numbers, the largest first."""
        shown = self.after.shown_number
        if not is_edited:
            return aligned([[one.name, shown(one.name, _or_nan(one.after))] for one in self.changes])
        head = ["", "before", "after", "points" if self.after.are_shares else "difference"]
        rows = [
            [one.name, *(shown(one.name, _or_nan(each)) for each in (one.before, one.after)), self._difference(one)]
            for one in self.changes
        ]
        return aligned([head, *rows])

    def _difference(self, one: Change) -> str:
        if self.after.are_shares:
            return f"{100 * one.difference:+.1f}"
        shown = self.after.shown_number(one.name, one.difference)
        return shown if shown.startswith("-") else f"+{shown}"

    def __repr__(self) -> str:
        return f"<Answer of {visible(self.model.name)}: {visible(self.words)}>"


@dataclass(frozen=True, repr=False)
class Answers:
    """The answers of one or several models to an input: `predictions("dogs.bundle", "photo.jpg", brightness=0.5)`."""

    given: Edited
    each: tuple[Answer, ...]

    @property
    def agreement(self) -> str:
        """Whether the models agree about the input as it is now, in words; empty for a single one."""
        if len(self.each) < 2:
            return ""
        first = self.each[0]
        is_same = all(_is_same(first.after, other.after) for other in self.each[1:])
        said = agreement(
            [one.model.name for one in self.each], [one.after.answer for one in self.each], is_same=is_same
        )
        places = [
            f"{first.model.name} and {other.model.name}: {words}"
            for other in self.each[1:]
            if type(other.after) is type(first.after) and (words := first.after.agreement(other.after))
        ]
        return "; ".join([said, *places])

    @property
    def words(self) -> str:
        """The question and its answers in one line."""
        said = "; ".join(f"{one.model.name}: {one.words}" for one in self.each)
        return f"{self.given.words}: {said}"

    def __str__(self) -> str:
        """For a terminal."""
        parts = []
        for one in self.each:
            about = f" ({one.agreement})" if one.agreement and self.given.edits else ""
            parts += [f"{visible(one.model.name)}: {visible(one.words)}{visible(about)}"]
            parts += [f"  {line}" for line in one.lines(is_edited=bool(self.given.edits))]
            parts += [""]
        return "\n".join([*parts, visible(self.agreement)]).strip()

    def __repr__(self) -> str:
        return f"<Answers: {visible(self.words)}>"

    # -- as code

    def as_python(self) -> str:
        """A program that gives the same answers; they are in its `answers`."""
        loaded, names = [], []
        for at, one in enumerate(self.each):
            names.append(
                "model" if len(self.each) == 1 else f"model_{chr(ord('a') + at)}" if at < 26 else f"model_{at}"
            )
            loaded.append(one.model.as_python(names[-1]))
        takes = self.each[0].model.bundle.manifest.takes.noun
        imports = "import leaven\n" + ("from leaven.lab import edit\n" if self.given.edits else "")
        asks = f"answers = [{', '.join(f'{name}({takes})' for name in names)}]\n"
        shows = f"for answer in answers:\n    print(answer.describe({self.each[0].k}))\n"
        return f"{imports}\n{''.join(loaded)}{self.given.as_python(takes)}{asks}{shows}"

    def as_recipe(self) -> str | None:
        """The transforms for `train` that prepare a model for such inputs; None where there are none."""
        return self.given.as_recipe()

    def as_check(self) -> str:
        """A check that the edits don't change the answer of the first model."""
        return f"expect {self.given.words} is {written(self.each[0].before.answer)}"

    def picture(self) -> bytes:
        """The changed image as a PNG file, with the objects or classes that the first model finds in it."""
        shown = self.given.picture()
        drawn = self.each[0].after.drawn(Image.open(BytesIO(shown)).convert("RGB"))
        return Edited(drawn).picture() if drawn is not None else shown

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            **self.given.to_json(),
            "answers": [one.to_json() for one in self.each],
            "agreement": self.agreement,
            "recipe": self.as_recipe(),
        }


def predictions(
    models: Model | Sequence[Model],
    given: Any,
    k: int = TOP,
    *,
    before: Mapping[str, Prediction] | None = None,
    **changes: Any,
) -> Answers:
    """The answers of some models to an input, before its edits and after.

    `given` is a photo, a text, or what `edit` returns; further edits are keyword arguments. `before` are predictions
    for the unchanged input by the names of models, where they are known already.
    """
    edited = edit(given, **changes)
    unchanged = as_edited(edited.input)
    is_moved = any(one.kind.moves for one in edited.edits)
    answers = []
    for model in asked(models):
        first = (before or {}).get(model.name) or model.predict(unchanged)
        answers.append(Answer(model, first, model.predict(edited) if edited.edits else first, k, is_moved))
    return Answers(edited, tuple(answers))


def largest(numbers: Mapping[str, float], of: Prediction, k: int) -> list[str]:
    """The names of the k largest shares; of numbers that are no shares, the first."""
    names = sorted(numbers, key=lambda name: -numbers[name]) if of.are_shares else list(numbers)
    return names[:k]


def _is_same(one: Prediction, other: Prediction) -> bool:
    return type(one) is type(other) and one.is_same(other)


def _or_nan(number: float | None) -> float:
    return float("nan") if number is None else number
