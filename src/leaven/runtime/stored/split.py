"""A split whose batches come with stored outputs, in the order and with the targets that they would have anyway."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leaven.runtime.data.batches import IndexedSplit
from leaven.runtime.data.loading import BatchKey
from leaven.runtime.stored.batch import StoredBatch
from leaven.runtime.stored.computing import StoredOutputs, StoredViews
from leaven.runtime.trials.group import current_trial


class StoredSplit:
    """A split with stored outputs; its images are read only if something else needs them.

    `sizes` are those of the batches for which stored outputs are as good as computed ones; others have images.
    """

    def __init__(
        self,
        split: IndexedSplit,
        outputs: Mapping[str, StoredOutputs | StoredViews],
        sizes: set[int],
        *,
        has_images: bool,
    ) -> None:
        self._split = split
        self._outputs = outputs
        self._sizes = sizes
        self._has_images = has_images
        self.name = split.name
        self.batch_size = split.batch_size
        self.target = split.target
        self._last: tuple[BatchKey, Mapping[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self._split)

    def class_counts(self) -> list[int]:
        return self._split.class_counts()

    def steps(self, world: int = 1) -> int:
        return self._split.steps(world)

    def part(self, batch: int, rank: int, world: int) -> float:
        return self._split.part(batch, rank, world)

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Any, Tensor]]:
        keys = self._split.keys(epoch, rank, world, shuffle=shuffle)[first:]
        needed = [key for key in keys if self._has_images or len(key.indices) not in self._sizes]
        images = self._split.read(needed, needs_all=True)  # as all were when the outputs were computed
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

    def _taken(self, key: BatchKey) -> Mapping[str, Any]:
        """The outputs for a batch; those of the last batch are kept for trials that train on the same ones."""
        if current_trial() is None:
            return {name: stored.take(key) for name, stored in self._outputs.items()}
        last = self._last
        if last is None or last[0].epoch != key.epoch or not np.array_equal(last[0].indices, key.indices):
            last = key, {name: stored.take(key) for name, stored in self._outputs.items()}
        self._last = last
        return last[1]

    def targets(self, key: BatchKey) -> Tensor:
        values = self._split.reader.dataset.values
        assert values is not None
        return torch.tensor([values[index] for index in key.indices.tolist()])

    def with_outputs(self, name: str, outputs: StoredOutputs | StoredViews, sizes: set[int]) -> "StoredSplit":
        """The same split with the outputs of something else, too."""
        return StoredSplit(
            self._split, {**self._outputs, name: outputs}, self._sizes & sizes, has_images=self._has_images
        )

    def without_stored(self) -> IndexedSplit:
        """The split as it was."""
        return self._split

    def with_images(self) -> "StoredSplit":
        return StoredSplit(self._split, self._outputs, self._sizes, has_images=True)

    def stages(self, epoch: int) -> list[Any]:
        return self._split.stages(epoch)

    def close(self) -> None:
        self._split.close()
