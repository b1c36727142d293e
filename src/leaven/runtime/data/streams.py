"""How a stream, a user's `IterableDataset`, is read: always from the beginning, reproducible at a fixed worker count.

Each worker iterates over the stream by itself and makes whole batches, as in a plain DataLoader: a stream that does
not use `get_worker_info()` gives its samples once per worker. A stream without predefined splits is split by each
sample's position, so its order must be the same every time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from leaven.formats.target import BadTarget, Target
from leaven.runtime.data.loading import DrawnSample, Transform, loader_of, start_loading
from leaven.runtime.data.samples import collate
from leaven.runtime.data.shares import check_world, share_of
from leaven.runtime.data.splits import CYCLE
from leaven.runtime.data.torch_datasets import as_pair, as_plain
from leaven.runtime.failures import Failure
from leaven.runtime.seeding import generators_kept, seed_all


class StreamSplit:
    """One of train, val and test of a stream; used like a `Split`."""

    def __init__(self, name: str, reader: "StreamReader", workers: int) -> None:
        self.name = name
        self.batch_size = reader.batch_size
        self.target = reader.target
        self._reader = reader
        self._workers = workers
        self._counted: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return sum(self._sizes(1))

    def class_counts(self) -> list[int]:
        """All 0: only reading the whole stream would tell."""
        return [0] * len(self.target.names)

    def steps(self, world: int = 1) -> int:
        """How many batches a process gets in an epoch, as one of `world`. The stream is read once to count."""
        if self.name != "train":
            return len(self._sizes(world))
        check_world(self.batch_size, world)
        return len(self._sizes(1))

    def part(self, batch: int, rank: int, world: int) -> float:
        """For which part of a batch the samples count that a process gets of it."""
        return share_of(self._sizes(1)[batch], self.batch_size, rank, world).part

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The images and targets of an epoch; batches before number `first` are read and dropped."""
        epoch = epoch if self.name == "train" else 0
        return islice(self._load(epoch=epoch, rank=rank, world=world), first, None)

    def order(self, rank: int = 0, world: int = 1) -> None:
        """Samples of a stream have no index."""

    @property
    def transform(self) -> Transform:
        return self._reader.transform

    def drawn(self, epoch: int, number: int | None = None) -> DrawnSample | None:
        """A sample before its transforms, as the first worker draws it; the stream is read up to it."""
        return replace(self._reader, epoch=epoch if self.name == "train" else 0).drawn(number or 0)

    def close(self) -> None:
        """Nothing is kept from one epoch to the next."""

    def _sizes(self, world: int) -> list[int]:
        """How many samples the batches have that the first of `world` processes gets."""
        if world not in self._counted:
            self._counted[world] = list(self._load(world=world, counts_only=True))
        return self._counted[world]

    def _load(self, **which: Any) -> Iterator[Any]:
        reader = replace(self._reader, **which)
        for loaded in start_loading(loader_of(reader, self._workers)) if len(reader.residues) else ():
            if isinstance(loaded, Failure):
                raise loaded
            yield loaded


@dataclass(frozen=True, eq=False)
class StreamReader(IterableDataset[Any]):
    """Makes batches of a stream's samples whose positions modulo CYCLE are among `residues`."""

    source: Any
    target: Target
    residues: np.ndarray
    transform: Transform
    batch_size: int
    seed: int
    is_train: bool
    epoch: int = 0
    rank: int = 0
    world: int = 1
    counts_only: bool = False

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        try:
            yield from self._batches(worker.id if worker is not None else 0)
        except Failure as failure:
            yield failure  # raised by the training process, without a worker's traceback

    def _batches(self, worker: int) -> Iterator[Any]:
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(self.epoch)
        seed_all(self.seed, self.epoch, worker, devices=False)
        for batch in self._own_samples():
            with generators_kept():  # what the stream draws does not depend on the share
                collated = self._collated(batch, worker)
            yield collated

    def _own_samples(self) -> Iterator[list[tuple[int, Any]]]:
        """The samples that this process gets of every batch; a last training batch of a single sample is left out.

        Of val and test, it gets every world-th sample.
        """
        if not self.is_train:
            own = islice(self._kept_samples(), self.rank, None, self.world)
            yield from _in_batches(own, max(1, self.batch_size // self.world))
            return
        for number, batch in enumerate(_in_batches(self._kept_samples(), self.batch_size)):
            if len(batch) > 1 or self.batch_size == 1 or not number:
                share = share_of(len(batch), self.batch_size, self.rank, self.world)
                yield batch[share.start : share.stop]

    def drawn(self, number: int) -> DrawnSample | None:
        """A sample before its transforms, for which the generators are then seeded."""
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(self.epoch)
        seed_all(self.seed, self.epoch, 0, devices=False)
        found = next(islice(self._kept_samples(), number, None), None)
        if found is None:
            return None
        position, sample = found
        name = f"sample {position} of {type(self.source).__name__}"
        image, label = as_pair(sample, name)
        seed_all(self.seed, self.epoch, 0, position, devices=False)
        return DrawnSample((image,), self._value(label, name), name, *divmod(number, self.batch_size))

    def _value(self, label: Any, name: str) -> Any:
        try:
            return self.target.value(as_plain(label))
        except BadTarget as bad:
            raise Failure(f"{name} {bad.fact}", bad.help) from None

    def _kept_samples(self) -> Iterator[tuple[int, Any]]:
        """The samples of the split with their positions."""
        kept, position = set(self.residues.tolist()), 0
        try:
            for sample in self.source:
                if position % CYCLE in kept:
                    yield position, sample
                position += 1
        except OSError as problem:
            raise Failure(f"sample {position} of {type(self.source).__name__} can't be read: {problem}") from None

    def _collated(self, batch: list[tuple[int, Any]], worker: int) -> Any:
        if self.counts_only:
            return len(batch)
        images, targets = [], []
        for position, sample in batch:
            name = f"sample {position} of {type(self.source).__name__}"
            image, label = as_pair(sample, name)
            if self.transform is not None:
                seed_all(self.seed, self.epoch, worker, position, devices=False)
                image = self.transform(image)
            images.append(image)
            targets.append(self._value(label, name))
        return collate(images), torch.tensor(targets)


def _in_batches(samples: Iterator[tuple[int, Any]], size: int) -> Iterator[list[tuple[int, Any]]]:
    """So many samples at a time, and what is left."""
    while batch := list(islice(samples, size)):
        yield batch
