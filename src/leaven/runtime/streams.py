"""How a stream, a user's `IterableDataset`, is read: always from the beginning, and exact at a fixed number of workers.

Each worker goes through the stream for itself and makes whole batches of what it gets, as in a plain DataLoader: a
stream that does not share its items out by `get_worker_info()` gives them once per worker. A stream that comes
undivided is divided by each item's place in it, so its order must be the same every time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from leaven.runtime.chance import sow
from leaven.runtime.failures import Failure
from leaven.runtime.parts import CYCLE
from leaven.runtime.reading import Steps, collated, settle_worker
from leaven.runtime.sets import as_pair, class_number


class StreamPart:
    """One of train, val and test of a stream; used like a `Part`."""

    def __init__(self, name: str, reader: "StreamReader", workers: int) -> None:
        self.name = name
        self.batch = reader.batch
        self._reader = reader
        self._workers = workers
        self._counted: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return self._count(1)[1]

    def class_counts(self) -> list[int]:
        """All 0: only going through the stream would tell."""
        return [0] * len(self._reader.classes)

    def steps(self, world: int = 1) -> int:
        """How many batches each of `world` processes gets in an epoch. The stream is gone through once to count."""
        return self._count(world)[0]

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The images and labels of an epoch; those before batch number `first` are read and let go."""
        reader = replace(self._reader, epoch=epoch if self.name == "train" else 0, rank=rank, world=world)
        for number, got in enumerate(self._load(reader)):
            if isinstance(got, Failure):
                raise got
            if number >= first:
                yield got

    def close(self) -> None:
        """Nothing is kept from one epoch to the next."""

    def _count(self, world: int) -> tuple[int, int]:
        if world not in self._counted:
            sizes = []
            for got in self._load(replace(self._reader, world=world, counts_only=True)):
                if isinstance(got, Failure):
                    raise got
                sizes.append(got)
            self._counted[world] = len(sizes), sum(sizes) * world
        return self._counted[world]

    def _load(self, reader: "StreamReader") -> Iterable[Any]:
        if not len(reader.residues):
            return ()
        return DataLoader(
            reader,
            batch_size=None,
            collate_fn=_untouched,
            num_workers=self._workers,
            worker_init_fn=settle_worker,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),
        )


@dataclass(frozen=True, eq=False)
class StreamReader(IterableDataset[Any]):
    """Makes batches of a stream's items whose places modulo CYCLE are among `residues`."""

    source: Any
    classes: tuple[str, ...]
    residues: np.ndarray
    steps: Steps
    batch: int
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
            yield failure  # told by the training process, without a worker's traceback

    def _batches(self, worker: int) -> Iterator[Any]:
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(self.epoch)
        if self.is_train and self.batch % self.world:
            raise Failure(f"a batch of {self.batch} can't be shared evenly by {self.world} processes")
        size = max(1, self.batch // self.world)
        batch: list[tuple[int, Any]] = []
        is_first = True
        sow(self.seed, self.epoch, worker, everywhere=True, devices=False)
        for place, item in self._own_items():
            batch.append((place, item))
            if len(batch) == size:
                yield self._made(batch, worker)
                batch, is_first = [], False
        if batch and (len(batch) > 1 or size == 1 or is_first or not self.is_train):
            yield self._made(batch, worker)

    def _own_items(self) -> Iterator[tuple[int, Any]]:
        """Every world-th item with its place. In training, a last round that does not reach every process is left out,
        since each must take as many steps as the others."""
        kept = set(self.residues.tolist())
        own: tuple[int, Any] | None = None
        turn = 0
        for place, item in self._items():
            if place % CYCLE not in kept:
                continue
            if turn % self.world == self.rank:
                own = place, item
            turn += 1
            if own is not None and (turn % self.world == 0 or not self.is_train):
                yield own
                own = None

    def _items(self) -> Iterator[tuple[int, Any]]:
        place = 0
        try:
            for item in self.source:
                yield place, item
                place += 1
        except OSError as problem:
            raise Failure(f"item {place} of {type(self.source).__name__} can't be read: {problem}") from None

    def _made(self, batch: list[tuple[int, Any]], worker: int) -> Any:
        if self.counts_only:
            return len(batch)
        images, labels = [], []
        for place, item in batch:
            name = f"item {place} of {type(self.source).__name__}"
            image, label = as_pair(item, name)
            if self.steps is not None:
                sow(self.seed, self.epoch, worker, place, everywhere=True, devices=False)
                image = self.steps(image)
            images.append(image)
            labels.append(class_number(label, self.classes, name))
        return collated(images), torch.tensor(labels)


def _untouched(batch: Any) -> Any:
    return batch
