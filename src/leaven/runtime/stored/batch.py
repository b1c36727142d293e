"""A batch of which some outputs were computed before."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Outputs = tuple[Any, ...]


class StoredBatch:
    """Outputs for the samples of a batch, by what computed them, and the images if something else needs them.

    A model or teacher that finds its own outputs in a batch goes on from there.
    """

    __slots__ = ("images", "outputs", "size")

    def __init__(self, images: Tensor | None, outputs: Mapping[str, Outputs], size: int) -> None:
        self.images = images
        self.outputs = outputs
        self.size = size

    def __len__(self) -> int:
        return self.size

    @property
    def shape(self) -> torch.Size:
        """That of the images, else of the first of the outputs."""
        shown = self.images if self.images is not None else next(iter(self.outputs.values()))[0]
        return torch.Size(shown.shape)

    def to(self, *args: Any, **kwargs: Any) -> "StoredBatch":
        """The batch on another device."""

        def moved(value: Any) -> Any:
            return value.to(*args, **kwargs) if isinstance(value, Tensor) else value

        outputs = {name: tuple(map(moved, kept)) for name, kept in self.outputs.items()}
        return StoredBatch(moved(self.images), outputs, self.size)
