"""The way of one sample: through its transforms, as an epoch draws them, into its batch.

    trace("dogs.leaven", sample="cat/3.jpg", draws=4)
    trace("efficientnet_lite0", sample="photo.jpg", split="eval")

A draw is what training draws for the sample in an epoch; several draws are those of several epochs. Whatever a trace
computes, the global generators and the transforms of the data are left as they were.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from torchvision.transforms import v2 as T

from leaven.bundle import Bundle
from leaven.formats.finite_json import as_json
from leaven.lab.subject import Subject
from leaven.lab.tracing.data_way import TOKENIZE, DataWay, Draw, Wanted
from leaven.lab.tracing.opened import Opened, opened
from leaven.lab.tracing.shown import as_text, picture_of
from leaven.lab.tracing.steps import Step, StepName, Way, text_steps
from leaven.lab.tracing.warnings import DataWarning, Facts, warnings_of
from leaven.plan.plan import Plan
from leaven.runtime.data.loading import copied, one_thread, transforms_in
from leaven.runtime.data.samples import LABELLED
from leaven.runtime.data.texts import Tokenizer
from leaven.runtime.failures import Caution, Failure
from leaven.runtime.seeding import generators_kept

EXAMINED = 8  # draws that warnings are about, at least


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The way of one sample through its transforms into its batch, once per draw."""

    name: str
    sample: str
    split: Wanted
    target: str
    draws: tuple[Draw, ...]
    notes: tuple[str, ...] = ()  # where a run takes a shorter way
    warnings: tuple[DataWarning, ...] = ()

    @property
    def is_text(self) -> bool:
        return self.draws[0].is_text

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sample": self.sample,
            "split": self.split,
            "target": self.target,
            "draws": [draw.to_json() for draw in self.draws],
            "notes": list(self.notes),
            "warnings": [one.to_json() for one in self.warnings],
        }

    def picture(self) -> bytes | None:
        """A PNG file with a tile per transform, a row per draw; None for a text."""
        return None if self.is_text else picture_of(self)

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return f"<Trace of {self.sample} ({self.split}): {len(self.draws[0].steps) - 1} steps, {len(self.draws)} draws>"


def trace(
    of: str | os.PathLike[str] | Subject | Plan | Bundle,
    sample: Any = None,
    split: Wanted = "train",
    draws: int = 1,
    *,
    epoch: int = 1,
    trust_code: bool = False,
) -> Trace:
    """The way of one sample of a recipe or a run, or of a photo or a text into a model.

    `sample` is the name of a sample, the end of its path, or its number in the split, from 0; by default the first of
    the epoch. `draws` are those of so many epochs from `epoch` on; only training draws. With `split="eval"`, the sample
    goes through the transforms for evaluation.
    """
    if draws < 1 or epoch < 1:
        raise Failure("draws and epochs count from 1")
    if isinstance(of, Bundle):
        return _of_model(os.fspath(of.path), of, sample)
    subject = of if isinstance(of, Subject | Plan) else Subject(of, trust_code=trust_code)
    if isinstance(subject, Subject) and (subject.plan is None or _is_new_input(subject, sample, split)):
        return _of_model(subject.name, subject.model, sample)
    with generators_kept(), opened(subject) as found:
        return trace_in(found, sample, split, draws, epoch)


def trace_in(found: Opened, sample: Any, split: Wanted, draws: int, epoch: int) -> Trace:
    """The way of one sample of data that is open."""
    with generators_kept(), one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)  # a text that is cut off is in the trace
        return _of_data(DataWay(found, split), sample, draws, epoch - 1)


def _is_new_input(subject: Subject, sample: Any, split: Wanted) -> bool:
    """Whether a run is asked about an image that is not in its data, which is prepared as for a prediction."""
    if subject.run is None or split != "eval":
        return False
    return isinstance(sample, Image.Image | np.ndarray) or (isinstance(sample, str) and os.path.isfile(sample))


def _of_data(way: DataWay, sample: Any, draws: int, epoch: int) -> Trace:
    where = way.find(sample)
    epochs = range(epoch, epoch + draws) if way.trains else range(1)
    drawn = [way.draw(where, epochs[0])]
    where = where or way.found_again(drawn[0])
    drawn += [way.draw(where, each) for each in epochs[1:]]
    examined: list[Sequence[Step]] = [each.steps for each in drawn]
    if way.trains and way.transforms.random:
        more = range(epoch + draws, epoch + max(draws, EXAMINED))
        examined += [way.looked_at(where, each) for each in more]
    first = drawn[0]
    return Trace(
        way.opened.name, first.sample, way.wanted, first.target, tuple(drawn), way.notes(epoch), way.warnings(examined)
    )


# -- of a model


def _of_model(name: str, model: Bundle, given: Any) -> Trace:
    """The way of a photo or a text into a model, through its transforms for evaluation."""
    takes = model.manifest.takes
    if given is None:
        raise Failure(f"which {takes.noun}?", f"`--sample` names {'a photo' if takes.noun == 'image' else 'a text'}")
    converted = takes.converted(given)
    preprocess = model.preprocess
    with generators_kept(), one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)
        if isinstance(preprocess, Tokenizer):
            steps = text_steps(preprocess, converted, StepName(TOKENIZE))
        else:
            applied = transforms_in(copied(preprocess))
            names = [StepName(_call_of(one)) for one in applied]
            steps = Way(LABELLED, None, applied, names).steps((converted,))
    shown = given if isinstance(given, str | os.PathLike) else f"the {takes.noun}"
    draws = (Draw(os.fspath(shown), "", 1, tuple(steps)),)
    return Trace(name, os.fspath(shown), "eval", "", draws, warnings=warnings_of([steps], Facts("eval")))


def _call_of(transform: Any) -> str:
    """A transform with its settings, as torchvision prints it."""
    if not isinstance(transform, T.Transform):
        return getattr(transform, "__name__", type(transform).__name__)
    return f"{type(transform).__name__}({transform.extra_repr()})"
