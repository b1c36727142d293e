"""A split whose batches come with stored outputs, in the order and with the targets that they would have anyway."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leaven.runtime.data.batches import IndexedSplit
from leaven.runtime.data.loading import BatchKey, DrawnSample, Transform
from leaven.runtime.stored.batch import StoredBatch
from leaven.runtime.stored.computing import StoredOutputs
from leaven.runtime.trials.group import current_trial


@dataclass(eq=False, repr=False)
class StoredSplit:
    """A split with stored outputs; its images are read only if something else needs them.

    `sizes` are those of the batches for which stored outputs are as good as computed ones; others have images, and so
    have all as soon as the outputs are outdated.
    """

    original: IndexedSplit
    _outputs: Mapping[Any, StoredOutputs]
    _sizes: set[int]
    _has_images: bool = False
    _are_outdated: Callable[[], bool] = lambda: False
    # the last batch of trials, which use the same ones
    _last: list[tuple[BatchKey, Mapping[Any, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.original.name
        self.batch_size = self.original.batch_size
        self.target = self.original.target

    def __len__(self) -> int:
        return len(self.original)

    def class_counts(self) -> list[int]:
        return self.original.class_counts()

    def steps(self, world: int = 1) -> int:
        return self.original.steps(world)

    def part(self, batch: int, rank: int, world: int) -> float:
        return self.original.part(batch, rank, world)

    def order(self, rank: int = 0, world: int = 1) -> Sequence[int] | None:
        return self.original.order(rank, world)

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Any, Tensor]]:
        if self._are_outdated():
            yield from self.original.batches(epoch, first=first, rank=rank, world=world, shuffle=shuffle)
            return
        keys = self.original.keys(epoch, rank, world, shuffle=shuffle)[first:]
        needed = [key for key in keys if self._has_images or len(key.indices) not in self._sizes]
        images = self.original.read(needed, needs_all=True)  # as all were when the outputs were computed
        for key in keys:
            if len(key.indices) not in self._sizes:
                yield next(images)
            elif self._has_images:
                loaded, targets = next(images)
                yield self.stored(key, loaded), targets
            else:
                yield self.stored(key), self.targets(key)

    def stored(self, key: BatchKey, images: Tensor | None = None) -> StoredBatch:
        """A batch with its stored outputs."""
        return StoredBatch(images, self._taken(key), len(key.indices))

    def _taken(self, key: BatchKey) -> Mapping[Any, Any]:
        """The outputs for a batch; those of the last batch are kept for trials that train on the same ones."""
        if current_trial() is not None:
            for last, taken in self._last:
                if last.epoch == key.epoch and np.array_equal(last.indices, key.indices):
                    return taken
        taken = {name: stored.take(key) for name, stored in self._outputs.items()}
        if current_trial() is not None:
            self._last[:] = [(key, taken)]
        return taken

    def targets(self, key: BatchKey) -> Tensor:
        values = self.original.reader.dataset.values
        assert values is not None
        return torch.tensor([values[index] for index in key.indices.tolist()])

    def with_outputs(self, key: Any, outputs: StoredOutputs, sizes: set[int]) -> "StoredSplit":
        """The same split with the outputs of something else, too."""
        return replace(self, _outputs={**self._outputs, key: outputs}, _sizes=self._sizes & sizes, _last=[])

    def with_images(self) -> "StoredSplit":
        return replace(self, _has_images=True)

    def until(self, are_outdated: Callable[[], bool]) -> "StoredSplit":
        """The same split, which asks before every epoch whether its outputs can still be used."""
        return replace(self, _are_outdated=are_outdated)

    @property
    def transform(self) -> Transform:
        return self.original.transform

    def drawn(self, epoch: int, number: int | None = None) -> DrawnSample | None:
        return self.original.drawn(epoch, number)

    def close(self) -> None:
        self.original.close()
