"""Decides in a run whether outputs and decoded images are stored and how long they are used, and says why not."""

import time
from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from torch import Tensor, nn

from leaven.cache.store import default_store
from leaven.runtime.data.batches import Data, IndexedSplit, Split
from leaven.runtime.data.datasets import ImageFiles
from leaven.runtime.failures import Failure
from leaven.runtime.model.outside import state_with_outside
from leaven.runtime.model.state import differences, tensors_of
from leaven.runtime.run.fabric import gathered
from leaven.runtime.stored import identity
from leaven.runtime.stored.agreement import agreed
from leaven.runtime.stored.approximate import fastest
from leaven.runtime.stored.batch import MODEL, StoredBatch
from leaven.runtime.stored.checked_copy import CheckedCopy
from leaven.runtime.stored.computing import Computation, Computing
from leaven.runtime.stored.decoded import Decoding, image_transforms
from leaven.runtime.stored.frozen import FrozenPart, RestOfModel, StoredPart
from leaven.runtime.stored.identity import NotStored
from leaven.runtime.stored.split import StoredSplit
from leaven.runtime.trials.shared import own_weights, shared_frozen

if TYPE_CHECKING:
    from leaven.runtime.run.phase import Phase
    from leaven.runtime.run.run import Run


@runtime_checkable
class Answering(Protocol):
    """A teacher: a frozen model that answers for a batch of images, or finds its answer in the batch."""

    model: nn.Module

    def __call__(self, images: Tensor | StoredBatch) -> Tensor: ...

    def unsaved_state(self) -> list[str]: ...


def frozen_once(
    phase: "Phase", model: nn.Module, data: Data, only: str | None, *, exact: bool
) -> tuple[nn.Module, Data]:
    """The rest of a model, after its frozen layers, and the data with their outputs; the model and the data themselves
    where the frozen layers run in every epoch.
    """
    run, trial = phase.run, phase.run.trial
    splits = [getattr(data, name) for name in ([only] if only is not None else ("train", "val"))]
    began, computing = time.monotonic(), _computing(run, data)

    def store() -> StoredPart | None:
        return agreed(run, lambda: _with_frozen(phase, model, splits, computing, exact=exact))

    try:
        stored = store() if trial is None else shared_frozen(trial, phase, model, splits, store, exact=exact)
    except NotStored as reason:
        what = "the frozen layers run in every epoch" if phase.loop.most_epochs > 1 else "no outputs are stored"
        run.print(f"{phase.name}: {what}, because {reason}")
        if phase.loop.most_epochs > 1 and trial is None:
            _decode_instead(run, splits, exact=exact)
        return model, data
    count = sum(gathered(run.fabric, computing.computed))
    if count:
        seconds = time.monotonic() - began
        run.print(f"{phase.name}: ran the frozen layers once for {count:,} samples, {seconds:.1f} s")
    if stored is None:
        return model, data
    outdated = Outdated(run, phase.name, model, stored)
    first, *others = stored.splits.values()  # in the order of an epoch
    found = [first.until(outdated.look), *(split.until(lambda: outdated.is_so) for split in others)]
    return RestOfModel(model, stored.part), data.with_splits({split.name: split for split in found})


def _with_frozen(
    phase: "Phase", model: nn.Module, splits: Sequence[Split], computing: Computing, *, exact: bool
) -> StoredPart | None:
    run = phase.run
    given = list(_with_samples(splits))
    if not given:
        return None
    noise = agreed(run, lambda: computing.noise_of(given[0]))
    part, computation = agreed(run, lambda: FrozenPart.of(model, noise, run.fabric.autocast))
    if not exact:
        measuring = Computing(computing.store, run, computing.batch_size)  # each knows the facts of one computation
        computation, how = fastest(computation, measuring, given[0])
        run.print(f"{phase.name}: the frozen layers run {how}")
    found: dict[str, StoredSplit] = {}
    for split in given:
        sizes = computing.sizes(split)
        outputs = computing.outputs(computation, split)
        if exact:
            sizes = agreed(run, partial(computing.equal_sizes, computation, split, outputs))
        found[split.name] = StoredSplit(split, {MODEL: outputs}, sizes)
    computing.finish(computation)
    return StoredPart(part, computation.facts["weights"], found)


class Outdated:
    """Whether something that the planner does not know of has changed or unfrozen layers whose outputs are stored. From
    then on they run again, and a line says why."""

    def __init__(self, run: "Run", phase: str, model: nn.Module, stored: StoredPart) -> None:
        self.is_so = False  # when someone looked last
        self._run = run
        self._phase = phase
        self._model = model
        self._settings = state_with_outside(model)  # with which the graph was found
        self._tensors = tensors_of(stored.part.before)
        self._weights = stored.weights
        self._versions = self._now() if stored.is_of_copy else []  # torch counts writes to a tensor

    def look(self) -> bool:
        """Whether they are outdated now: takes some milliseconds."""
        if not self.is_so and (reason := self._reason()):
            if self._run.trial is not None and not self._has_same_weights():
                raise Failure(
                    "the program writes to the weights of frozen layers, which trials that train together share",
                    "train them one by one: `leaven run RECIPE --no-cache`",
                )
            own_weights(self._model)
            self.is_so = True
            self._run.print(f"{self._phase}: from here on, the frozen layers run in every epoch, because {reason}")
        return self.is_so

    def _reason(self) -> str:
        """Why they are, in words that follow "because"; empty where they are not."""
        if any(tensor.requires_grad for tensor in self._tensors.values()):
            return "they are trainable now"
        if not self._has_same_weights():
            return "their weights have changed"
        settings = differences(self._settings, state_with_outside(self._model))
        return f"{settings[0]} has changed" if settings else ""

    def _has_same_weights(self) -> bool:
        versions = self._now()
        if versions != self._versions:
            if identity.of_weights(self._tensors) != self._weights:
                return False
            self._versions = versions
        return True

    def _now(self) -> list[int]:
        return [tensor._version for tensor in self._tensors.values()]


def teacher_once(phase: "Phase", teacher: Answering, data: Data) -> Data:
    """The data with the outputs of a teacher for training; where it runs in every epoch, with images at least."""
    train = data.train
    try:
        train = agreed(phase.run, lambda: _with_teacher(phase.run, teacher, data))
    except NotStored as reason:
        phase.run.print(f"{phase.name}: the teacher runs in every epoch, because {reason}")
        train = train.with_images() if isinstance(train, StoredSplit) else train
    return data.with_splits({"train": train})


def _with_teacher(run: "Run", teacher: Answering, data: Data) -> Split:
    train, computing = data.train, _computing(run, data)
    for split in _with_samples([train.original if isinstance(train, StoredSplit) else train]):
        noise = agreed(run, partial(computing.noise_of, split))
        computation = agreed(run, partial(_of_teacher, teacher, noise))
        outputs = computing.outputs(computation, split)
        sizes = agreed(run, partial(computing.equal_sizes, computation, split, outputs))
        computing.finish(computation)
        before = train if isinstance(train, StoredSplit) else StoredSplit(split, {}, sizes).with_images()
        return before.with_outputs(teacher, outputs, sizes)
    return train


def _of_teacher(teacher: Answering, images: Any) -> Computation:
    """The computation of a teacher's outputs, by a copy of it that was tried with some images."""
    checked = CheckedCopy(teacher.model)
    asked = copy(teacher)
    asked.model = checked.copy
    checked.evaluate(lambda: asked(images))
    title = f"the outputs of the teacher {type(teacher.model).__name__}"
    return Computation(title, lambda images: (asked(images),), identity.of_model(checked.copy), checked)


def _decode_instead(run: "Run", splits: Sequence[Split], *, exact: bool) -> None:
    """Store the images that the frozen layers need in every epoch after all, where these are read from files."""
    for split in splits:
        if not isinstance(split, IndexedSplit) or split.reader.decoded is not None:
            continue
        if isinstance(split.reader.dataset.load, ImageFiles):
            store_decoded(run, split, image_transforms(split), exact=exact)


def store_decoded(run: "Run", split: Split, transforms: int, *, exact: bool) -> None:
    """Let a split read images that are decoded already, with so many of their transforms; or as it does, and why."""
    try:
        for each in _with_samples([split]):
            _decode_once(run, each, transforms, exact=exact)
    except NotStored as reason:
        run.print(f"{split.name}: images are decoded in every epoch, because {reason}")


def _decode_once(run: "Run", split: IndexedSplit, transforms: int, *, exact: bool) -> None:
    fabric = run.fabric
    decoding = agreed(run, lambda: Decoding(split, transforms, exact=exact))
    missing: list[int] = fabric.broadcast(decoding.missing())  # others may be writing already
    agreed(run, lambda: decoding.require_room(missing))
    mine = missing[fabric.global_rank :: fabric.world_size]
    agreed(run, lambda: decoding.decode(mine, fabric.world_size, run.stop_here))
    split.use_decoded(agreed(run, decoding.images))


def _computing(run: "Run", data: Data) -> Computing:
    return Computing(default_store(), run, data.batch_size // run.fabric.world_size)


def _with_samples(splits: Sequence[Split]) -> Iterator[IndexedSplit]:
    for split in splits:
        if not isinstance(split, IndexedSplit):
            raise NotStored("the images come as a stream")
        if len(split):
            yield split
