"""In which order items are read, what is done to them, and how they become batches.

Decides what each batch holds from (seed, epoch, number of the batch) alone: how many workers load it, in how many
processes a run trains and where it was interrupted change nothing. Going through the batches is the run's business.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from leaven.runtime.chance import generator
from leaven.runtime.failures import BadFile, Failure
from leaven.runtime.items import Items
from leaven.runtime.parts import Parts
from leaven.runtime.reading import BatchKey, Reader, Steps, chance_of, settle_worker
from leaven.runtime.sets import Stream, as_pair
from leaven.runtime.streams import StreamPart, StreamReader

MOST_WORKERS = 4
FEW = 500  # items: so many are read sooner than another process has started
Sampler = Literal["shuffled", "balanced"]


class Data:
    """A data set, divided, with the steps that turn its items into tensors.

    `train` and `eval` may be any callable on a picture, or None where items are tensors already. `batch` is how many
    items a step sees over all processes. `random=False` says that there is no chance in the steps, which saves sowing
    it for every item.
    """

    def __init__(
        self,
        items: Items | Stream,
        parts: Parts,
        *,
        train: Steps,
        eval: Steps,
        batch: int = 32,
        workers: int | Literal["auto"] = "auto",
        seed: int = 0,
        sampler: Sampler = "shuffled",
        on_bad_file: Literal["stop", "skip"] = "stop",
        random: bool = True,
    ) -> None:
        self.items = items
        self.parts = parts
        self.classes = items.classes
        self.prepare = eval  # what a picture goes through before a trained model sees it
        self.batch = batch
        self.workers = _workers(items) if workers == "auto" else workers
        self._skipped: set[str] = set()

        def part(name: str, steps: Steps) -> Part:
            places = getattr(parts, name)
            if isinstance(items, Stream):
                source = items.sources.get(name, items.sources["train"])
                reading = StreamReader(source, items.classes, places, steps, batch, seed, is_train=name == "train")
                return StreamPart(name, reading, self.workers)
            chance = chance_of(items, steps) if random else None
            reader = Reader(items, places, steps, seed, chance, on_bad_file == "skip", refills=name == "train")
            return ItemPart(name, reader, batch, self.workers, sampler, self._skipped)

        self.train = part("train", train)
        self.val = part("val", eval)
        self.test = part("test", eval)

    @property
    def example(self) -> Any:
        """An item to train on as the steps get it, the first that can be read."""
        if isinstance(self.items, Stream):
            return as_pair(next(iter(self.items.sources["train"])), "the first item")[0]
        for place in self.parts.train.tolist():
            with suppress(BadFile):
                item = self.items.load(place)
                return item[0] if self.items.labels is None else item
        return None

    @property
    def channels(self) -> int:
        """How many channels a picture has when the steps are done."""
        picture = self.example if self.prepare is None else self.prepare(self.example)
        return int(picture.shape[-3])

    def fingerprint(self) -> dict[str, Any]:
        """What tells this data from other data: its classes, how it is divided, and which items are where."""
        counts = {"train": len(self.train), "val": len(self.val), "test": len(self.test)}
        found = {"classes": list(self.classes), **counts}
        if isinstance(self.items, Stream):
            return found
        names = sha256()
        for part in (self.parts.train, self.parts.val, self.parts.test):
            for place in part.tolist():
                label = "" if self.items.labels is None else self.items.labels[place]
                names.update(f"{os.path.basename(self.items.name(place))}\0{label}\n".encode(errors="replace"))
        return {**found, "items": names.hexdigest()}

    @property
    def skipped(self) -> tuple[str, ...]:
        """The names of the bad files that were left out so far."""
        return tuple(sorted(self._skipped))

    def close(self) -> None:
        """End the processes that load data."""
        for part in (self.train, self.val, self.test):
            part.close()


def _workers(items: Items | Stream) -> int:
    """How many processes load the data: none for what is at hand or little, nor for streams, mostly written for one."""
    if isinstance(items, Stream) or items.in_memory or len(items) < FEW:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_WORKERS, cores)


class Part(Protocol):
    """One of train, val and test. Only train is shuffled; its epochs differ, those of the others are all alike."""

    name: str
    batch: int

    def __len__(self) -> int: ...

    def class_counts(self) -> list[int]:
        """How many items each class has; all 0 where only loading them would tell."""

    def steps(self, world: int = 1) -> int:
        """How many batches each of `world` processes gets in an epoch."""

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The images and labels of an epoch, on the CPU, from batch number `first` on.

        Of train, each process takes its share of every batch; of the others, every world-th item.
        """

    def close(self) -> None:
        """End the processes that load this part."""


class ItemPart:
    """A part whose items can be read at any place."""

    def __init__(
        self, name: str, reader: Reader, batch: int, workers: int, sampler: Sampler, skipped: set[str]
    ) -> None:
        self.name = name
        self.batch = batch
        self._reader = reader
        self._workers = workers
        self._sampler = sampler
        self._skipped = skipped
        self._turn = _Turn()
        self._loader: DataLoader[Any] | None = None

    def __len__(self) -> int:
        return len(self._reader.places)

    def class_counts(self) -> list[int]:
        items = self._reader.items
        labels = np.empty(0, dtype=np.int64) if items.labels is None else np.asarray(items.labels)[self._reader.places]
        return [int(count) for count in np.bincount(labels, minlength=len(items.classes))]

    def steps(self, world: int = 1) -> int:
        if self.name == "train":
            return len(shares_of_steps(len(self), self.batch, world))
        return len(self._keys(0, world))

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Tensor, Tensor]]:
        keys = self._training_keys(epoch, rank, world, shuffle) if self.name == "train" else self._keys(rank, world)
        turn = self._turn.take(keys[first:])
        read = self._begin()
        while (got := _next(read)) is not None:
            if self._workers and turn is not self._turn.keys:
                raise RuntimeError(f"the batches of {self.name} were begun anew while they were being read")
            if isinstance(got, Failure):
                raise got
            images, labels, bad = got
            self._skipped.update(bad)
            if len(labels):
                yield images, labels

    def close(self) -> None:
        self._loader = None

    def _training_keys(self, epoch: int, rank: int, world: int, shuffle: bool) -> list[BatchKey]:
        places = self._reader.places
        order = self._order(epoch) if shuffle else np.arange(len(places))
        keys = []
        for start, share in shares_of_steps(len(places), self.batch, world):
            own = range(start + rank * share, start + (rank + 1) * share)
            keys.append(BatchKey(epoch, own, places[order[own.start : own.stop]]))
        return keys

    def _order(self, epoch: int) -> np.ndarray:
        chance = generator(self._reader.seed, epoch)
        if self._sampler == "shuffled":
            return torch.randperm(len(self), generator=chance).numpy()
        if self._reader.items.labels is None:
            raise Failure("`balanced` needs to know the labels beforehand", "give the data set an attribute `targets`")
        labels = torch.as_tensor(self._reader.items.labels)[torch.from_numpy(self._reader.places)]
        weights = 1.0 / torch.bincount(labels).double()[labels]
        return torch.multinomial(weights, len(self), replacement=True, generator=chance).numpy()

    def _keys(self, rank: int, world: int) -> list[BatchKey]:
        own = range(rank, len(self), world)
        size = max(1, self.batch // world)
        chunks = [own[start : start + size] for start in range(0, len(own), size)]
        return [BatchKey(0, chunk, self._reader.places[chunk.start : chunk.stop : world]) for chunk in chunks]

    def _begin(self) -> Iterator[Any]:
        """An iterator over the keys whose turn it is; the loader's workers are kept from one epoch to the next."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="This DataLoader will create")  # the user's own choice
            if self._loader is None:
                self._loader = DataLoader(
                    self._reader,
                    sampler=self._turn,
                    batch_size=None,
                    collate_fn=_as_it_is,
                    num_workers=self._workers,
                    persistent_workers=self._workers > 0,
                    worker_init_fn=settle_worker,
                    pin_memory=torch.cuda.is_available(),
                    generator=torch.Generator(),  # so that no draw is taken from the training's own chance
                )
            return iter(self._loader)


class _Turn:
    """The keys of the epoch that is being read; a loader asks for them once per epoch."""

    def __init__(self) -> None:
        self.keys: Sequence[BatchKey] = ()

    def take(self, keys: Sequence[BatchKey]) -> Sequence[BatchKey]:
        self.keys = keys
        return keys

    def __iter__(self) -> Iterator[BatchKey]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)


def shares_of_steps(count: int, batch: int, world: int) -> list[tuple[int, int]]:
    """Where each batch begins in the order of an epoch, and how many of its items each process gets.

    A last batch that is not full is kept, unless a process would get a single item of it: normalisation can't learn
    from one. What can't be shared out evenly is left out; in the next epoch these are other items.
    """
    if batch % world:
        better = -(-batch // world) * world
        raise Failure(f"a batch of {batch} can't be shared evenly by {world} processes", f"write `batch={better}`")
    shares = [(start, batch // world) for start in range(0, count - batch + 1, batch)]
    start = len(shares) * batch
    last = (count - start) // world
    if last > 1 or (last == 1 and (not shares or batch == world)):
        shares.append((start, last))
    if not shares:
        raise Failure(f"{count} training items can't be shared by {world} processes", "use fewer processes")
    return shares


def _as_it_is(batch: Any) -> Any:
    return batch


def _next(read: Iterator[Any]) -> Any:
    """The next batch, None at the end."""
    try:
        return next(read, None)
    except RuntimeError as problem:
        if str(problem).startswith("DataLoader worker"):  # "exited unexpectedly", "is killed by signal"
            raise Failure(
                "a process that loads data was ended from outside, perhaps for want of memory",
                "use fewer of them: `workers 0` in the data block",
            ) from None
        raise
