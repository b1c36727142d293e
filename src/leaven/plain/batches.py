"""The batches of each split.

A recipe that asks for more than shuffled images has another kind of `Split`; several are combined by inheritance.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from leaven.plain.samples import Samples
from leaven.plain.seeding import seed_python
from leaven.runtime.seeding import derive_seed


@dataclass
class Split(Dataset[Any]):
    """The samples of train, val or test, and how they are prepared."""

    name: str
    samples: Samples
    indices: np.ndarray
    transform: Any
    batch_size: int
    seed: int
    workers: int = 0

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.samples.inputs[index]), self.samples.targets[index]

    def keys(self, epoch: int) -> Any:
        """The indices of an epoch in the dataset; those of train in an order that follows from (seed, epoch)."""
        if self.name != "train":
            return self.indices.tolist()
        rng = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
        indices = self.indices[torch.randperm(len(self.indices), generator=rng)]
        drops_last = len(indices) % self.batch_size == 1 and len(indices) > 1  # batch norm fails on a batch of one
        return (indices[:-1] if drops_last else indices).tolist()

    def batches(self, epoch: int = 0) -> Iterable[tuple[Any, Tensor]]:
        return DataLoader(self, self.batch_size, sampler=self.keys(epoch), num_workers=self.workers)

    def class_counts(self) -> list[int]:
        """How many samples each class has."""
        targets = [self.samples.targets[index] for index in self.indices]
        return [targets.count(number) for number in range(len(self.samples.classes))]


class ClassIndex:
    """The meaning of targets that are the index of a class."""

    kind = "class"


class Data(NamedTuple):
    """The splits of a dataset."""

    classes: tuple[str, ...]
    train: Split
    val: Split
    test: Split

    @property
    def eval_transform(self) -> Any:
        return self.val.transform

    @property
    def outputs(self) -> int:
        """How many outputs a model for this data has."""
        return len(self.classes)

    @property
    def target(self) -> Any:
        """What the outputs mean."""
        return getattr(self.train.samples, "target", ClassIndex())

    @property
    def example(self) -> Any:
        """The first training image, before the transforms."""
        samples = self.train.samples
        found = samples.inputs[int(self.train.indices[0])]
        return found if samples.targets is not None else found[0]

    @property
    def channels(self) -> int:
        """How many channels an image has after the transforms."""
        return int(self.eval_transform(self.example).shape[-3])


# -- other kinds of splits


class BalancedSplit(Split):
    """A split of which an epoch has about equally many samples of every class."""

    def keys(self, epoch: int) -> Any:
        if self.name != "train":
            return super().keys(epoch)
        rng = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
        indices = self.indices[balanced_order(self.samples.targets, self.indices, rng)]
        return in_full_batches(indices, self.batch_size).tolist()


def in_full_batches(indices: np.ndarray, batch_size: int) -> np.ndarray:
    """All indices but a last one that would be alone in its batch: it can't be normalised."""
    return indices[: len(indices) - (len(indices) % batch_size == 1 < len(indices))]


def balanced_order(targets: Any, indices: np.ndarray, rng: torch.Generator) -> Tensor:
    """Random positions, of each class about equally many."""
    chosen = torch.as_tensor(targets)[torch.from_numpy(indices)]
    weights = 1.0 / torch.bincount(chosen).double()[chosen]
    return torch.multinomial(weights, len(indices), replacement=True, generator=rng)


class SeededSplit(Split):
    """A split with random transforms: what they draw follows from (seed, epoch, position)."""

    def keys(self, epoch: int) -> Any:
        return [(epoch, position, index) for position, index in enumerate(super().keys(epoch))]

    def __getitem__(self, key: Any) -> Any:
        epoch, position, index = key
        torch.manual_seed(derive_seed(self.seed, epoch, position))
        return super().__getitem__(index)


class UserSplit(Split):
    """A split with your code in it, which may draw from the random numbers of Python and NumPy."""

    def __getitem__(self, index: int) -> Any:
        seed_python()
        if self.samples.targets is not None:
            return super().__getitem__(index)
        image, target = self.samples.inputs[index]  # only reading an image tells its class
        return self.transform(image), target


class SingleThreadSplit(Split):
    """A split that is loaded as in a worker: with more threads, a mean over an image's pixels has other last digits."""

    def batches(self, epoch: int = 0) -> Iterator[tuple[Any, Tensor]]:
        threads, batches = torch.get_num_threads(), iter(super().batches(epoch))
        while True:
            torch.set_num_threads(1)
            batch: Any = next(batches, None)
            torch.set_num_threads(threads)
            if batch is None:
                return
            yield batch


class CollatingSplit(Split):
    """A split that makes batches of samples in its own way."""

    def collate(self, samples: list[Any]) -> Any:
        return default_collate(samples)

    def batches(self, epoch: int = 0) -> Iterable[tuple[Any, Tensor]]:
        keys = self.keys(epoch)
        return DataLoader(self, self.batch_size, sampler=keys, num_workers=self.workers, collate_fn=self.collate)


class Unreadable(Exception):
    """An input that can't be read."""


class Readable:
    """Inputs of which some can't be read."""

    def __init__(self, inputs: Any) -> None:
        self.inputs = inputs

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.inputs[index]
        except Exception as problem:  # a damaged file makes Pillow raise nearly anything
            raise Unreadable from problem


class SkippingSplit(CollatingSplit):
    """A split of which the inputs that can't be read are left out."""

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Unreadable:
            return None

    def collate(self, samples: list[Any]) -> Any:
        readable = [sample for sample in samples if sample is not None]
        return super().collate(readable) if readable else ()

    def batches(self, epoch: int = 0) -> Iterator[tuple[Any, Tensor]]:
        return (batch for batch in super().batches(epoch) if batch)
