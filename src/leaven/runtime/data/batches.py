"""Which samples make up each batch, in which order, and which transforms they get.

A batch follows from (seed, epoch, batch number) alone: the number of workers and of processes, and where a run was
interrupted, change nothing.
"""

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader

from leaven.formats import data_fingerprint
from leaven.formats.machine import cores
from leaven.formats.target import BadTarget, Target
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.lengths import grouped_by_length
from leaven.runtime.data.loading import (
    BatchKey,
    BatchReader,
    Changed,
    Decoded,
    DrawnSample,
    Transform,
    loader_of,
    start_loading,
)
from leaven.runtime.data.samples import LABELLED, Samples
from leaven.runtime.data.shares import batch_sizes, bounds, check_world, share_of
from leaven.runtime.data.splits import SplitIndices
from leaven.runtime.data.streams import StreamReader, StreamSplit
from leaven.runtime.data.torch_datasets import StreamDataset, as_pair
from leaven.runtime.failures import BadFile, Failure
from leaven.runtime.seeding import generator, generators_kept

MOST_WORKERS = 4
QUICKLY = 1.0  # seconds: what is loaded in less needs no worker processes, which take that long to pay
MANY = 500  # samples take longer than that, as far as is known without measuring
_TRIED = 8  # samples, to measure how long loading takes
Sampler = Literal["shuffled", "balanced"]


class Data:
    """A dataset with its split and transforms.

    Transforms are callables on an image, or None where samples are tensors already; `samples` says what else they get,
    and what batches are made of (`samples.py`). `batch_size` is the number of samples in a batch over all processes; an
    optimizer step may use several batches. Without a `seed`, the global generators are left alone, and the order is not
    shuffled.
    """

    def __init__(
        self,
        dataset: Dataset | StreamDataset,
        split: SplitIndices,
        *,
        train_transform: Transform,
        eval_transform: Transform,
        batch_size: int = 32,
        workers: int | Literal["auto"] = "auto",
        seed: int | None = 0,
        sampler: Sampler = "shuffled",
        on_bad_file: Literal["stop", "skip"] = "stop",
        samples: Samples = LABELLED,
    ) -> None:
        dataset = self.dataset = _fitted(dataset, split)
        self.split = split
        self.target = dataset.target
        self.train_transform = train_transform
        self.eval_transform = eval_transform
        self.samples = samples
        self._workers, self._seed, self._sampler, self._on_bad_file = workers, seed, sampler, on_bad_file
        self._noted = _Noted()
        self._encoded: dict[int, Decoded] = {}  # by the transform
        self.use_batch_size(batch_size)

    def use_batch_size(self, size: int) -> None:
        """From here on, batches have so many samples."""
        self.batch_size = size
        self._with_views: dict[int, Data] = {}
        self.train = self._split("train", self.train_transform)
        self.val = self._split("val", self.eval_transform)
        self.test = self._split("test", self.eval_transform)

    def _split(self, name: str, transform: Transform) -> "Split":
        dataset, indices, is_train = self.dataset, getattr(self.split, name), name == "train"
        size, seed, workers = self.batch_size, self._seed, self._workers
        if isinstance(dataset, StreamDataset):
            if self.samples is not LABELLED:
                raise Failure("a stream can't be used for this task", "use a Dataset with `__getitem__` and `__len__`")
            source = dataset.sources.get(name, dataset.sources["train"])
            stream = StreamReader(source, dataset.target, indices, transform, size, seed or 0, is_train)
            return StreamSplit(name, stream, 0 if workers == "auto" else workers)
        skips_bad, decoded = self._on_bad_file == "skip", self._all_at_once(dataset, transform)
        reader = BatchReader(dataset, indices, transform, seed, skips_bad, is_train, self.samples, decoded)
        return IndexedSplit(name, reader, size, workers, self._sampler, self._noted)

    def _all_at_once(self, dataset: Dataset, transform: Any) -> Decoded | None:
        """All samples after the transform, where it prepares them at once, as a tokenizer does."""
        if not hasattr(transform, "encoded"):
            return None
        if id(transform) not in self._encoded:
            skips_bad = self._on_bad_file == "skip"
            self._encoded[id(transform)] = transform.encoded(dataset, skips_bad=skips_bad)
        return self._encoded[id(transform)]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(split):,} {split.name}" for split in (self.train, self.val, self.test))
        return f"<Data: {sizes}; {self.target.brief}; batches of {self.batch_size}>"

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of each output of the model: the classes of a classifier."""
        return self.target.names

    @property
    def outputs(self) -> int:
        """How many outputs a model for this data has."""
        return len(self.target.names)

    @property
    def example(self) -> Any:
        """The first readable training image, before the transforms."""
        if isinstance(self.dataset, StreamDataset):
            return as_pair(next(iter(self.dataset.sources["train"])), "the first sample")[0]
        for index in self.split.train.tolist():
            with suppress(BadFile):
                sample = self.dataset.load(index)
                return sample[0] if self.dataset.values is None else sample
        return None

    @property
    def channels(self) -> int:
        """How many channels an image has after the transforms."""
        image = self.example if self.eval_transform is None else self.eval_transform(self.example)
        return int(image.shape[-3])

    def fingerprint(self) -> dict[str, Any]:
        """The identity of this data: its target, the sizes of its splits, and which samples are in each."""
        counts = {"train": len(self.train), "val": len(self.val), "test": len(self.test)}
        dataset, parts = self.dataset, (self.split.train, self.split.val, self.split.test)
        if isinstance(dataset, StreamDataset):
            return {"outputs": list(self.target.names), **counts}
        values = [""] * len(dataset) if dataset.values is None else dataset.values
        names = (f"{os.path.basename(dataset.name(index))}\0{values[index]}" for part in parts for index in part.data)
        return data_fingerprint.of_samples(self.target.names, counts, names)

    def with_splits(self, splits: Mapping[str, "Split"]) -> "Data":
        """The same data with other batches of some splits."""
        copied = copy(self)
        vars(copied).update(splits)
        return copied

    def with_views(self, count: int) -> "Data":
        """The same data with so many augmented views of every training image: each epoch uses the next one."""
        if not isinstance(self.train, IndexedSplit):
            raise Failure("the images come as a stream, which has no fixed views", "remove `features` from the phase")
        if count not in self._with_views:  # the same for all trials of a sweep
            self._with_views[count] = self.with_splits({"train": self.train.with_views(count)})
        return self._with_views[count]

    @property
    def skipped(self) -> tuple[str, ...]:
        """The names of the bad files that were skipped so far."""
        return tuple(sorted(self._noted.skipped))

    @property
    def changed_in_workers(self) -> Changed:
        """The plain state of the user's code that has changed in worker processes so far."""
        return frozenset(self._noted.changed)

    def close(self) -> None:
        """Stop the worker processes."""
        for split in (self.train, self.val, self.test):
            split.close()


def _fitted(dataset: Dataset | StreamDataset, split: SplitIndices) -> Dataset | StreamDataset:
    """The dataset with values as the model is trained on them, which may depend on the training split."""
    if isinstance(dataset, StreamDataset) or dataset.values is None or not len(split.train):
        return dataset
    try:
        target, values = dataset.target.fitted(dataset.values, split.train.data)
    except BadTarget as bad:
        raise Failure(f"the data {bad.fact}", bad.help) from None
    return dataset if target is dataset.target else replace(dataset, target=target, values=values)


def _measured_workers(reader: BatchReader) -> int:
    """How many worker processes load samples: none where that is quick enough without, as measured on some.

    Nobody's own code is called just to measure it: there, the number of samples decides.
    """
    most = min(MOST_WORKERS, cores())
    if reader.dataset.in_memory or len(reader.indices) < 2:
        return 0
    if reader.dataset.digests is None or reader.draws_from == "all":
        return most if len(reader.dataset) >= MANY else 0
    tried = range(1, min(1 + _TRIED, len(reader.indices)))
    with generators_kept():
        reader[BatchKey(0, range(1), reader.indices[:1])]  # the first takes longer, as libraries are loaded
        began = time.perf_counter()
        reader[BatchKey(0, tried, reader.indices[tried.start : tried.stop])]
    seconds = (time.perf_counter() - began) / len(tried) * len(reader.indices)
    return most if seconds >= QUICKLY else 0


class Batches(Protocol):
    """Samples that can be measured: those of a split, or the features of their images."""

    name: str
    batch_size: int
    target: Target

    def __len__(self) -> int: ...

    def order(self, rank: int = 0, world: int = 1) -> Sequence[int] | None:
        """The indices in the dataset of the samples that one of so many processes measures, in this order; None where
        samples have none. Those that were skipped are left out."""

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Any, Any]]:
        """The inputs and targets of an epoch, on the CPU, from batch number `first` on.

        Of train, each process gets its share of every batch; of the others, every world-th sample. Without `shuffle`,
        train is in the order of its samples, or of their lengths, and each is in one share.
        """


class Split(Batches, Protocol):
    """One of train, val and test. Only train is shuffled, differently in every epoch."""

    def class_counts(self) -> list[int]:
        """How many samples each class has; all 0 where only loading them would tell."""

    def steps(self, world: int = 1) -> int:
        """How many batches a process gets in an epoch, as one of `world`."""

    def part(self, batch: int, rank: int, world: int) -> float:
        """The share of a training batch that the samples of a process stand for (`shares.py`)."""

    @property
    def transform(self) -> Transform: ...

    def drawn(self, epoch: int, number: int | None = None) -> DrawnSample | None:
        """A sample before its transforms, for which the generators are then seeded as the epoch seeds them.

        `number` is its place in the split; without it, the first that can be read. None where no batch has it.
        """

    def close(self) -> None:
        """Stop the worker processes of this split."""


@dataclass(eq=False, repr=False)
class IndexedSplit:
    """A split whose samples can be read in any order."""

    name: str
    reader: BatchReader
    batch_size: int
    _workers: int | Literal["auto"]
    _sampler: Sampler
    _noted: "_Noted"
    views: int = 0  # of every sample, if their number is limited

    def __post_init__(self) -> None:
        self.target = self.reader.dataset.target
        self._keys = _Keys()
        self._loader: DataLoader[Any] | None = None
        every = getattr(self.reader.decoded, "lengths", None)
        self._lengths: np.ndarray | None = None if every is None else every[self.reader.indices]

    def __len__(self) -> int:
        return len(self.reader.indices)

    @property
    def has_lengths(self) -> bool:
        """Whether samples are of different lengths, as texts are."""
        return self._lengths is not None

    @property
    def workers(self) -> int:
        """How many worker processes load batches; with "auto", decided when it is first asked for. It changes nothing
        but speed."""
        if self._workers == "auto":
            self._workers = _measured_workers(self.reader)
        return self._workers

    def class_counts(self) -> list[int]:
        values, count = self.reader.dataset.values, len(self.target.names)
        if values is None or self.target.kind != "class":
            return [0] * count
        labels = np.asarray(values)[self.reader.indices]
        return [int(number) for number in np.bincount(labels, minlength=count)]

    def steps(self, world: int = 1) -> int:
        if self.name == "train":
            check_world(self.batch_size, world)
            return len(self._sizes)
        return len(self._eval_keys(0, world))

    def part(self, batch: int, rank: int, world: int) -> float:
        return share_of(self._sizes[batch], self.batch_size, rank, world).part

    @cached_property
    def _sizes(self) -> list[int]:
        return batch_sizes(len(self), self.batch_size)

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Any, Any]]:
        return self.read(self.keys(epoch, rank, world, shuffle=shuffle)[first:])

    def order(self, rank: int = 0, world: int = 1) -> Sequence[int] | None:
        name, skipped = self.reader.dataset.name, self._noted.skipped
        indices = [index for key in self.keys(0, rank, world, shuffle=False) for index in key.indices.tolist()]
        return [index for index in indices if name(index) not in skipped] if skipped else indices

    def keys(self, epoch: int, rank: int = 0, world: int = 1, *, shuffle: bool = True) -> list[BatchKey]:
        """The keys of the batches of an epoch, for one of so many processes."""
        return self._train_keys(epoch, rank, world, shuffle) if self.name == "train" else self._eval_keys(rank, world)

    def read(self, keys: Sequence[BatchKey], *, needs_all: bool = False) -> Iterator[tuple[Any, Any]]:
        """The images and targets of some batches; where it `needs_all`, a file that can't be read is a failure."""
        self._keys.keys = keys
        batches = self._iterate()
        while (loaded := _next(batches)) is not None:
            if self.workers and keys is not self._keys.keys:
                raise RuntimeError(f"the batches of {self.name} were restarted while they were being read")
            if isinstance(loaded, Failure):
                raise loaded
            if loaded.bad and needs_all:
                raise Failure(f"{loaded.bad[0]} can't be read")
            self._noted.skipped.update(loaded.bad)
            self._noted.changed.update(loaded.changed)
            if len(loaded.targets):
                yield loaded.inputs, loaded.targets

    def with_views(self, count: int) -> "IndexedSplit":
        """The same split with so many augmented views of every sample."""
        return replace(self, views=count)

    def use_decoded(self, decoded: Decoded) -> None:
        """From here on, read images that are decoded already."""
        self.close()
        self.reader = replace(self.reader, decoded=decoded)

    @property
    def transform(self) -> Transform:
        return self.reader.transform

    def drawn(self, epoch: int, number: int | None = None) -> DrawnSample | None:
        for batch, place, key in self._places(epoch, number):
            try:
                return replace(self.reader.drawn(key, place), batch=batch, place=place)
            except BadFile as bad:
                if number is not None or not self.reader.skips_bad_files:
                    raise bad if bad.file else bad.of(self.reader.dataset.name(int(key.indices[place]))) from None
        return None

    def _places(self, epoch: int, number: int | None) -> Iterator[tuple[int, int, BatchKey]]:
        """Batch and place in it of every sample of an epoch, or of a single one."""
        index = None if number is None else int(self.reader.indices[number])
        for batch, key in enumerate(self.keys(epoch)):
            for place, each in enumerate(key.indices.tolist()):
                if index is None or each == index:
                    yield batch, place, key

    def close(self) -> None:
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()  # a failure that is being reported may still hold it; garbage collection waits
        self._loader = None

    def _train_keys(self, epoch: int, rank: int, world: int, shuffle: bool) -> list[BatchKey]:
        indices = self.reader.indices
        order = self._order(epoch) if shuffle else self._fixed_order()
        keys = []
        for own in self._shares(rank, world, is_trained=shuffle):
            rows = order[own.start : own.stop]
            if self.views:
                views = (self._first_views[rows] + epoch) % self.views
                keys.append(BatchKey(epoch, rows.tolist(), indices[rows], views))
            else:
                keys.append(BatchKey(epoch, own, indices[rows]))
        return keys

    @cached_property
    def _first_views(self) -> np.ndarray:
        return np.random.default_rng(self.reader.seed or 0).integers(self.views, size=len(self))

    def _shares(self, rank: int, world: int, *, is_trained: bool) -> Iterator[range]:
        """The places in the order of an epoch that a process gets, of every batch.

        Where nothing is trained, each place is in one share, and a batch with too few samples gives a process none.
        """
        sizes = self._sizes if is_trained else batch_sizes(len(self), self.batch_size, with_single=True)
        for number, size in enumerate(sizes):
            start, share = number * self.batch_size, share_of(size, self.batch_size, rank, world)
            first, last = (share.start, share.stop) if is_trained else bounds(size, rank, world)
            if first < last:
                yield range(start + first, start + last)

    def _order(self, epoch: int) -> np.ndarray:
        if self.reader.seed is None:
            return np.arange(len(self))
        rng = generator(self.reader.seed, epoch)
        order = self._sampled(rng)
        return order if self._lengths is None else grouped_by_length(order, self._lengths, self.batch_size, rng)

    def _fixed_order(self) -> np.ndarray:
        """The order without shuffling: that of the samples, or the longest first, so that batches are alike."""
        return np.arange(len(self)) if self._lengths is None else np.argsort(-self._lengths, kind="stable")

    def _sampled(self, rng: torch.Generator) -> np.ndarray:
        if self._sampler == "shuffled":
            return torch.randperm(len(self), generator=rng).numpy()
        if self.reader.dataset.values is None:
            raise Failure("`balanced` needs the labels before training", "give the dataset an attribute `targets`")
        labels = torch.from_numpy(np.asarray(self.reader.dataset.values)[self.reader.indices])
        weights = 1.0 / torch.bincount(labels).double()[labels]
        return torch.multinomial(weights, len(self), replacement=True, generator=rng).numpy()

    def _eval_keys(self, rank: int, world: int) -> list[BatchKey]:
        own = range(rank, len(self), world)
        size = max(1, self.batch_size // world)
        chunks = [own[start : start + size] for start in range(0, len(own), size)]
        indices = self.reader.indices[self._fixed_order()]
        return [BatchKey(0, chunk, indices[chunk.start : chunk.stop : world]) for chunk in chunks]

    def _iterate(self) -> Iterator[Any]:
        """The batches of the current keys; the loader's workers are kept from one epoch to the next."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="This DataLoader will create")  # the user chose the number
            if self._loader is None:
                kept = {"sampler": self._keys, "persistent_workers": self.workers > 0}
                self._loader = loader_of(self.reader, self.workers, **kept)
            return start_loading(self._loader)


@dataclass
class _Noted:
    """What was noticed while samples were loaded, the same for all splits: bad files, and state that has changed."""

    skipped: set[str] = field(default_factory=set)
    changed: set[tuple[str, str]] = field(default_factory=set)


class _Keys:
    """The batch keys of the current epoch; a loader asks for them once per epoch."""

    def __init__(self) -> None:
        self.keys: Sequence[BatchKey] = ()

    def __iter__(self) -> Iterator[BatchKey]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)


def _next(batches: Iterator[Any]) -> Any:
    """The next batch, None at the end."""
    try:
        return next(batches, None)
    except RuntimeError as problem:
        if str(problem).startswith("DataLoader worker"):  # "exited unexpectedly", "is killed by signal"
            raise Failure(
                "a worker process that loads data was killed, perhaps because memory ran out",
                "use fewer workers: `workers 0` in the data block",
            ) from None
        raise
