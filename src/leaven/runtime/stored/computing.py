"""Outputs for all samples of a split, each computed once: by this run, or by one before it."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leaven.cache.entry_file import Entry
from leaven.cache.store import Store, key_of
from leaven.runtime.data.loading import BatchKey
from leaven.runtime.data.model_inputs import changed, some_of
from leaven.runtime.failures import Failure
from leaven.runtime.model.state import digest
from leaven.runtime.run.progress import Bar
from leaven.runtime.seeding import draws, generator, seed_all
from leaven.runtime.stored import identity
from leaven.runtime.stored.agreement import agreed
from leaven.runtime.stored.arrays import ENTRY_BYTES, Layout, Rows
from leaven.runtime.stored.checked_copy import CheckedCopy
from leaven.runtime.stored.identity import NotStored

if TYPE_CHECKING:
    from leaven.runtime.data.batches import IndexedSplit
    from leaven.runtime.run.run import Run

FORMAT = 1
_PROBED = 3  # random images
_TRIED = 64  # samples in batches of each size
_EXTREME = 1e4  # a pixel as no image has it
_THIS_PROCESS = os.urandom(16).hex()


@dataclass(frozen=True, eq=False)
class Computation:
    """A function of images that runs once per image. `facts` are all that its outputs depend on besides the images.

    It runs modules of the `checked` copy. Where their code comes from no library whose version is known, the facts are
    incomplete, and the outputs are kept for this process alone.
    """

    title: str
    run: Callable[[Any], tuple[Any, ...]]
    facts: dict[str, Any]
    checked: CheckedCopy

    @property
    def keeps(self) -> bool:
        """Whether other runs may use the outputs."""
        return not self.checked.own_code


@dataclass(frozen=True, eq=False)
class StoredOutputs:
    """The outputs of a computation for the samples of a split: one row for each, or one for each of its `views`."""

    layout: Layout
    views: Sequence[Rows]
    row_of: np.ndarray  # by the index of a sample in its dataset

    def take(self, key: BatchKey) -> tuple[Any, ...]:
        """The outputs for the samples of a batch."""
        rows, chosen = self.row_of[key.indices], key.views
        if chosen is None:
            return self.layout.complete(self.views[0].take(rows), len(rows))
        parts = [view.take(rows[chosen == number]) for number, view in enumerate(self.views)]
        place = torch.from_numpy(np.argsort(np.argsort(chosen, kind="stable"), kind="stable"))
        taken = [torch.cat(tensors)[place] for tensors in zip(*parts, strict=True)]
        return self.layout.complete(taken, len(rows))


@dataclass(frozen=True, eq=False)
class _Wanted:
    """The entries of a split, or of one view of it: their rows and their keys."""

    layout: Layout
    view: int
    chunks: list[range]
    samples: list[str]
    keys: list[str]

    def bytes_of(self, numbers: Sequence[int]) -> int:
        return sum(len(self.chunks[number]) for number in numbers) * self.layout.row_bytes


class Computing:
    """Looks up and computes outputs. Several processes share the work: what can fail in one of them is `agreed`."""

    def __init__(self, store: Store, run: "Run", batch_size: int) -> None:
        self.store = store
        self.run = run
        self.fabric = run.fabric
        self.batch_size = batch_size
        self.computed = 0  # images
        self._written: list[str] = []  # keys
        self._probes: dict[tuple[str, ...], tuple[Layout, list[str]]] = {}  # by the images that were tried
        self._known: dict[str, tuple[Layout, dict[str, Any]]] = {}

    def outputs(self, computation: Computation, split: "IndexedSplit") -> StoredOutputs:
        """The outputs for a whole split, or for all views of it, from the store as far as they are there; the others
        are computed."""
        if not split.views:
            agreed(self.run, lambda: self._refuse_random(split))
        views: Sequence[int | None] = range(split.views) if split.views else [None]
        wanted = [self._wanted(computation, split, view) for view in views]
        missing = [[at for at, key in enumerate(each.keys) if self.store.open(key) is None] for each in wanted]
        missing = self.fabric.broadcast(missing)  # others may be writing already
        needed = sum(each.bytes_of(numbers) for each, numbers in zip(wanted, missing, strict=True))
        agreed(self.run, lambda: self.store.require_room(needed))
        for each, numbers in zip(wanted, missing, strict=True):
            mine = numbers[self.fabric.global_rank :: self.fabric.world_size]
            agreed(self.run, partial(self._compute, computation, split, each, mine))
        rows = agreed(self.run, lambda: [self._open(each) for each in wanted])
        return StoredOutputs(wanted[0].layout, rows, split.reader.rows())

    def finish(self, computation: Computation) -> None:
        """Make sure that computing has changed nothing, and leave to other runs only what they may use."""
        agreed(self.run, computation.checked.refuse_changes)
        if not computation.keeps:
            self.store.leave_to_this_process(self._written)

    def _wanted(self, computation: Computation, split: "IndexedSplit", view: int | None) -> _Wanted:
        """The entries of a split, or of one of its augmented views."""
        samples = identity.of_samples(split.reader)
        layout, facts = self.facts(computation, split)
        chunks = self._chunks(len(split), layout)
        of_view = [{"view": view, "seed": split.reader.seed, "first": rows.start} for rows in chunks]
        keys = [
            key_of(**facts, **(more if view is not None else {}), samples=samples[rows.start : rows.stop])
            for rows, more in zip(chunks, of_view, strict=True)
        ]
        return _Wanted(layout, view or 0, chunks, samples, keys)

    def _open(self, wanted: _Wanted) -> Rows:
        entries = [entry for key in wanted.keys if (entry := self.store.open(key)) is not None]
        if len(entries) < len(wanted.keys):
            raise NotStored("the store does not keep what is written to it")
        return Rows(wanted.layout.forms, entries, list(map(len, wanted.chunks)))

    def sizes(self, split: "IndexedSplit") -> set[int]:
        """The sizes of a split's batches."""
        return {len(key.indices) for key in split.keys(0, self.fabric.global_rank, self.fabric.world_size)}

    def equal_sizes(self, computation: Computation, split: "IndexedSplit", stored: StoredOutputs) -> set[int]:
        """The sizes of batches whose outputs are equal to the stored ones, bit for bit: each tried on real batches.

        The libraries may sum up in another order for other sizes, which shows in the last digit of some samples only.
        The largest must be equal: it is tried in the order of two epochs, with other samples at other places.
        """
        if split.has_lengths and getattr(split.reader.transform, "padding", "") != "max_length":
            raise NotStored("outputs for texts differ slightly with padding")
        world = self.fabric.world_size
        keys = split.keys(0, self.fabric.global_rank, world)
        if split.name != "train" and world == 1:
            return self.sizes(split)  # they were computed in these batches
        _, facts = self.facts(computation, split)
        sizes = self.sizes(split)
        samples = identity.of_samples(split.reader)
        of_views = {"views": split.views, "seed": split.reader.seed} if split.views else {}
        known = key_of(**facts, **of_views, what="equal sizes", sizes=sorted(sizes), rows=_TRIED, samples=samples)
        entry = self.store.open(known)
        if entry is None:
            later = split.keys(1, self.fabric.global_rank, world)
            equal = [
                size
                for size in sizes
                if all(self._is_equal(computation, split, stored, key) for key in _of_size(size, keys, later))
            ]
            entry = self._write(known, {"group": group_of(computation, split), "equal": equal}, ())
        found = set(entry.about["equal"])
        if max(sizes) not in found:
            raise NotStored("the outputs for an image depend on what else is in its batch")
        return found

    def _is_equal(self, computation: Computation, split: "IndexedSplit", stored: StoredOutputs, key: BatchKey) -> bool:
        images, _ = next(split.read([key], needs_all=True))
        computed = self._run(computation, self.fabric.to_device(images))
        kept = self.fabric.to_device(stored.take(key))
        return all(
            torch.equal(one, other) if isinstance(one, Tensor) else one == other
            for one, other in zip(computed, kept, strict=True)
        )

    def facts(self, computation: Computation, split: "IndexedSplit") -> tuple[Layout, dict[str, Any]]:
        """The layout of the outputs, and all that they depend on besides the images."""
        if split.name not in self._known:
            layout, probed = self._probe(computation, self.noise_of(split))
            approximation = split.reader.decoded.approximation if split.reader.decoded is not None else ""  # of images
            facts = {
                **computation.facts,
                "format": FORMAT,
                "probe": probed,
                "transform": identity.of_transform(split.reader.transform),
                **({"images": approximation} if approximation else {}),
                "precision": str(self.fabric.strategy.precision.precision),
                "machine": identity.machine(self.fabric.device),
                "batch size": self.batch_size,
                "full batches": split.name == "train",  # so its last rows were computed in one, too
                **({} if computation.keeps else {"process": self.fabric.broadcast(_THIS_PROCESS)}),
            }
            self._known[split.name] = layout, facts
        return self._known[split.name]

    def _refuse_random(self, split: "IndexedSplit") -> None:
        """Images that are different in every epoch have no outputs to store."""
        reader, key = split.reader, _key(split, range(1))
        if reader.seed is not None:
            seed_all(reader.seed, 0, 0, torch_only=reader.draws_from == "torch", devices=False)
        have_drawn = draws()
        reader[key]
        if have_drawn():
            raise NotStored("the transforms draw random numbers")

    def noise_of(self, split: "IndexedSplit") -> Any:
        """A few random images, of the size of the split's."""
        identity.refuse_own_code(split.reader)
        loaded = split.reader[_key(split, range(1))]
        if isinstance(loaded, Failure):
            raise loaded
        if not len(loaded[1]):
            raise NotStored("some files can't be read")
        if isinstance(loaded[0], dict):  # a text, a few times
            return self.fabric.to_device(changed(loaded[0], lambda tensor: tensor.expand(_PROBED, -1).contiguous()))
        noise = torch.randn((_PROBED, *loaded[0].shape[1:]), generator=generator(0))
        return noise.to(self.fabric.device, loaded[0].dtype)

    def _probe(self, computation: Computation, noise: Any) -> tuple[Layout, list[str]]:
        """The layout of the outputs, and their digests for a few random images, in which a change of the code shows."""
        tried = tuple(map(digest, noise.values() if isinstance(noise, dict) else [noise]))
        if tried not in self._probes:
            outputs, fewer = self._run(computation, noise), self._run(computation, some_of(noise, _PROBED - 1))
            self._refuse_mixing(computation, noise, outputs)
            layout = Layout.of(outputs, fewer, (_PROBED, _PROBED - 1))
            self._probes[tried] = layout, [digest(output) for output in outputs if isinstance(output, Tensor)]
        return self._probes[tried]

    def _refuse_mixing(self, computation: Computation, noise: Any, usual: Sequence[Any]) -> None:
        """Raise where the outputs for an image depend on the others in its batch: tried with the brightest image as the
        first, and with the darkest as the last."""
        for place, extreme, others in ((0, _EXTREME, slice(1, None)), (_PROBED - 1, -_EXTREME, slice(_PROBED - 1))):
            unusual = self._run(computation, changed(noise, partial(_with_extreme, place, extreme)))
            for before, after in zip(usual, unusual, strict=True):
                has_rows = isinstance(before, Tensor) and before.shape[:1] == (_PROBED,)
                if has_rows and not torch.equal(before[others], after[others]):
                    raise NotStored("the outputs for an image depend on what else is in its batch")

    def _chunks(self, count: int, layout: Layout) -> list[range]:
        """The rows of each entry: whole batches, and at least one entry for every process to compute."""
        batches = max(1, ENTRY_BYTES // max(1, layout.row_bytes * self.batch_size))
        share = math.ceil(count / self.fabric.world_size / self.batch_size)
        step = max(1, min(batches, share)) * self.batch_size
        return [range(start, min(start + step, count)) for start in range(0, count, step)]

    def _compute(
        self, computation: Computation, split: "IndexedSplit", wanted: _Wanted, numbers: Sequence[int]
    ) -> None:
        """Compute some of the entries, and write them to the store."""
        batches = [list(self._batches(wanted.chunks[number], split)) for number in numbers]
        keys = [_key(split, rows, wanted.view) for some in batches for rows, _ in some]
        loaded, group = split.read(keys, needs_all=True), group_of(computation, split)
        with Bar(f"computing {computation.title} once for each image of {split.name}", len(keys)) as bar:
            for number, some in zip(numbers, batches, strict=True):
                computed = []
                for _, new in some:
                    self.run.stop_here()
                    outputs = self._run(computation, self.fabric.to_device(next(loaded)[0]))
                    computed.append([output[-new:] for output in outputs if isinstance(output, Tensor)])
                    self.computed += new
                    bar.advance()
                rows = slice(wanted.chunks[number].start, wanted.chunks[number].stop)
                if identity.of_samples(split.reader, rows) != wanted.samples[rows]:
                    raise NotStored("files are being changed")
                by_output = zip(wanted.layout.forms, zip(*computed, strict=True), strict=True)
                parts = [part for form, tensors in by_output for part in form.bytes_of(tensors)]
                about = {"group": group, "split": split.name, "rows": rows.stop - rows.start}
                self._write(wanted.keys[number], about, parts)

    def _write(self, key: str, about: dict[str, Any], parts: Any) -> Entry:
        self._written.append(key)
        return self.store.write(key, about, parts)

    def _batches(self, rows: range, split: "IndexedSplit") -> Iterator[tuple[range, int]]:
        """The batches in which some rows are computed, and how many of each are new.

        In validation they are those of every epoch. In training the last is as large as the others, with some rows a
        second time: it is in batches of that size that they will be used.
        """
        for start in range(rows.start, rows.stop, self.batch_size):
            stop = min(start + self.batch_size, rows.stop)
            first = max(0, stop - self.batch_size) if split.name == "train" else start
            yield range(first, stop), stop - start

    def _run(self, computation: Computation, images: Any) -> tuple[Any, ...]:
        with torch.no_grad(), self.fabric.autocast():
            have_drawn = draws()
            outputs = computation.run(images)
            if have_drawn():
                raise NotStored("random numbers are drawn")
        return outputs


def _of_size(size: int, *epochs: Sequence[BatchKey]) -> list[BatchKey]:
    """Batches of a size from some epochs in turn, with enough samples; after them, the beginnings of larger ones."""
    ordered = [sorted(keys, key=lambda key: len(key.indices) != size) for keys in epochs]
    turns = (key.first(size) for keys in zip_longest(*ordered) for key in keys if key and len(key.indices) >= size)
    return list(islice(turns, max(len(epochs), math.ceil(_TRIED / size))))


def _with_extreme(place: int, extreme: float, images: Tensor) -> Tensor:
    """A batch in which one image is extreme, or one text is reversed."""
    batch = images.clone()
    batch[place] = extreme if batch.is_floating_point() else batch[place].flip(0)
    return batch


def group_of(computation: Computation, split: "IndexedSplit") -> str:
    """The line of `leaven cache list` that an entry belongs to."""
    dataset = split.reader.dataset
    return f"{computation.title}, for {len(dataset):,} samples with {dataset.target.brief}"


def _key(split: "IndexedSplit", rows: range, epoch: int = 0) -> BatchKey:
    return BatchKey(epoch, rows, split.reader.indices[rows.start : rows.stop])
