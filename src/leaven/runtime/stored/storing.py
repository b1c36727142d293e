"""Decides in a run whether outputs and decoded images are stored, and says why not."""

import time
from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from torch import Tensor, nn

from leaven.formats.store import default_store
from leaven.runtime.data.batches import IndexedSplit, Split
from leaven.runtime.failures import Failure
from leaven.runtime.stored import identity
from leaven.runtime.stored.agreement import agreed
from leaven.runtime.stored.approximate import fastest
from leaven.runtime.stored.batch import StoredBatch
from leaven.runtime.stored.checked_copy import CheckedCopy
from leaven.runtime.stored.computing import Computation, Computing
from leaven.runtime.stored.decoded import Decoding, image_transforms, is_read_from_files
from leaven.runtime.stored.frozen import (
    MODEL,
    FrozenPart,
    Unchanged,
    continue_from_images,
    continue_from_stored,
    takes_stored,
)
from leaven.runtime.stored.identity import NotStored
from leaven.runtime.stored.split import StoredSplit
from leaven.runtime.trials.shared import shared_frozen

if TYPE_CHECKING:
    from leaven.runtime.run.phase import Phase
    from leaven.runtime.run.run import Run

TEACHER = "teacher"  # under which, with a number, a batch has the outputs of a teacher


@runtime_checkable
class Answering(Protocol):
    """A teacher: a frozen model that answers for a batch of images, or finds its answer in the batch."""

    model: nn.Module
    stored_as: str

    def __call__(self, images: Tensor | StoredBatch) -> Tensor: ...

    def unsaved_state(self) -> list[str]: ...


def store_frozen(phase: "Phase", splits: Sequence[Split], *, exact: bool) -> dict[str, StoredSplit]:
    """The given splits with the outputs of the model's frozen layers; none where the model runs as it is.

    Outputs that are not `exact` are computed in the fastest way.
    """
    trial = phase.run.trial
    began, computing = time.monotonic(), _computing(phase)

    def store() -> dict[str, StoredSplit]:
        return agreed(phase.run, lambda: _with_frozen(phase, splits, computing, exact=exact))

    try:
        found = shared_frozen(trial, phase, splits, store, exact=exact) if trial is not None else store()
    except NotStored as reason:
        continue_from_images(phase.model)
        what = "the frozen layers run in every epoch" if phase.total_epochs > 1 else "no outputs are stored"
        phase.run.print(f"{phase.name}: {what}, because {reason}")
        if phase.total_epochs > 1 and trial is None:
            _decode_instead(phase.run, splits, exact=exact)
        return {}
    count = sum(map(int, phase.run.gathered(str(computing.computed))))
    if count:
        seconds = time.monotonic() - began
        phase.run.print(f"{phase.name}: ran the frozen layers once for {count:,} samples, {seconds:.1f} s")
    return found


def go_on_from_images(phase: "Phase", reason: str) -> None:
    """Where frozen layers were changed or unfrozen by something that the planner does not know of: run them again."""
    if phase.run.trial is not None and phase.unchanged is not None and not phase.unchanged.has_same_weights():
        raise Failure(
            "the program writes to the weights of frozen layers, which trials that train together share",
            "train them one by one: `leaven run RECIPE --no-cache`",
        )
    continue_from_images(phase.model)
    phase.unchanged = None
    stored = [split for split in (phase.data.train, phase.data.val) if isinstance(split, StoredSplit)]
    phase.data = phase.data.with_splits({split.name: split.without_stored() for split in stored})
    phase.run.print(f"{phase.name}: from here on, the frozen layers run in every epoch, because {reason}")


def _with_frozen(
    phase: "Phase", splits: Sequence[Split], computing: Computing, *, exact: bool
) -> dict[str, StoredSplit]:
    model, run = phase.model, phase.run
    given = list(_with_samples(splits))
    if not given:
        return {}
    noise = agreed(run, lambda: computing.noise_of(given[0]))
    part, computation = agreed(run, lambda: FrozenPart.of(model, noise, run.fabric.autocast))
    if not exact:
        computation, how = fastest(computation, _computing(phase), given[0])
        phase.run.print(f"{phase.name}: the frozen layers run {how}")
    found: dict[str, StoredSplit] = {}
    for split in given:
        sizes = computing.sizes(split)
        outputs = computing.outputs(computation, split)
        if exact:
            sizes = agreed(phase.run, partial(computing.equal_sizes, computation, split, outputs))
        found[split.name] = StoredSplit(split, {MODEL: outputs}, sizes, has_images=False)
    computing.finish(computation)
    continue_from_stored(model, part)
    phase.unchanged = Unchanged(model, part, computation.facts["weights"])
    return found


def store_teacher(phase: "Phase", teacher: Answering, splits: Sequence[Split]) -> dict[str, StoredSplit]:
    """The given splits with the outputs of a teacher; where it is asked in every epoch, with images at least."""
    name = f"{TEACHER} {len(phase.teachers)}"
    phase.teachers.append(name)
    try:
        found = agreed(phase.run, lambda: _with_teacher(phase, teacher, name, splits))
    except NotStored as reason:
        phase.run.print(f"{phase.name}: the teacher runs in every epoch, because {reason}")
        there = [getattr(phase.data, split.name) for split in splits]
        return {split.name: split.with_images() for split in there if isinstance(split, StoredSplit)}
    teacher.stored_as = name
    if not takes_stored(phase.model):
        continue_from_stored(phase.model, None)
    return found


def _with_teacher(phase: "Phase", teacher: Answering, name: str, splits: Sequence[Split]) -> dict[str, StoredSplit]:
    if "forward" in vars(phase.model) and not takes_stored(phase.model):
        raise NotStored(f"{type(phase.model).__name__} has a `forward` that is not that of its class")
    computing, given = _computing(phase), list(_with_samples(splits))
    if not given:
        return {}
    noise = agreed(phase.run, lambda: computing.noise_of(given[0]))
    computation = agreed(phase.run, lambda: _of_teacher(teacher, noise))
    found: dict[str, StoredSplit] = {}
    for split in given:
        outputs = computing.outputs(computation, split)
        sizes = agreed(phase.run, partial(computing.equal_sizes, computation, split, outputs))
        before = getattr(phase.data, split.name)
        if not isinstance(before, StoredSplit):
            before = StoredSplit(split, {}, sizes, has_images=True)
        found[split.name] = before.with_outputs(name, outputs, sizes)
    computing.finish(computation)
    return found


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
        if isinstance(split, IndexedSplit) and split.reader.decoded is None and is_read_from_files(split):
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


def _computing(phase: "Phase") -> Computing:
    return Computing(default_store(), phase.run, phase.data.batch_size // phase.run.fabric.world_size)


def _with_samples(splits: Sequence[Split]) -> Iterator[IndexedSplit]:
    for split in splits:
        if not isinstance(split, IndexedSplit):
            raise NotStored("the images come as a stream")
        if len(split):
            yield split
