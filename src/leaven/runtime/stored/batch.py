"""A batch of which some outputs were computed before."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from leaven.runtime.data.model_inputs import ModelInputs, changed

Outputs = tuple[Any, ...]
MODEL = "model"  # under which a batch has the outputs of the model's frozen layers


class StoredBatch:
    """Outputs for the samples of a batch, by what computed them (`MODEL`, or a teacher), and the images if something
    else needs them.

    A model or teacher that finds its own outputs in a batch goes on from there. They are not to be changed: the same
    batch may be used again, by a second forward pass or by another trial. `own_copies` are for layers that may.
    """

    __slots__ = ("images", "outputs", "size")  # not a dataclass: at half precision, Fabric would convert its tensors

    def __init__(self, images: ModelInputs | None, outputs: Mapping[Any, Outputs], size: int) -> None:
        self.images = images
        self.outputs = outputs
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: slice) -> "StoredBatch":
        """Some samples of the batch."""
        size = len(range(self.size)[rows])
        return self._changed(lambda tensor: tensor[rows], size)

    def to(self, *args: Any, **kwargs: Any) -> "StoredBatch":
        """The batch on another device."""
        return self._changed(lambda tensor: tensor.to(*args, **kwargs), self.size)

    def _changed(self, change: Callable[[Tensor], Tensor], size: int) -> "StoredBatch":
        images = changed(self.images, change) if self.images is not None else None
        return StoredBatch(images, {name: _each(kept, change) for name, kept in self.outputs.items()}, size)


def inputs_of_model(batch: Any) -> Any:
    """The images of a batch, unless it has the outputs of the model's frozen layers."""
    return batch.images if isinstance(batch, StoredBatch) and MODEL not in batch.outputs else batch


def own_copies(outputs: Outputs) -> Outputs:
    """The same outputs in memory of their own, which layers may change in place."""
    return _each(outputs, Tensor.clone)


def _each(outputs: Outputs, change: Callable[[Tensor], Tensor]) -> Outputs:
    return tuple(change(each) if isinstance(each, Tensor) else each for each in outputs)
