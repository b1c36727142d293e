"""The inputs of a model for a batch, whatever they are: one tensor, as of images, or several by name, as of texts."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

ModelInputs = Tensor | dict[str, Tensor]


def changed(inputs: ModelInputs, change: Callable[[Tensor], Tensor]) -> Any:
    """The inputs with each of their tensors changed."""
    if isinstance(inputs, dict):
        return {name: change(tensor) for name, tensor in inputs.items()}
    return change(inputs)


def first_tensor(inputs: Any) -> Any:
    """The tensor, or the first of several."""
    return next(iter(inputs.values())) if isinstance(inputs, dict) else inputs


def some_of(inputs: Any, count: int) -> Any:
    """The first samples of a batch, perhaps of one with stored outputs."""
    return changed(inputs, lambda each: each[:count])


def moved(inputs: ModelInputs, device: torch.device, dtype: torch.dtype) -> Any:
    """The inputs on a device, in the type of the model's weights."""
    return changed(inputs, lambda tensor: on_device(tensor, device, dtype))


def on_device(tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A tensor on a device; in the type of the model's weights, but for token ids."""
    return tensor.to(device) if tensor.dtype == torch.int64 else tensor.to(device, dtype)


def as_batch(prepared: ModelInputs) -> Any:
    """One sample as a batch of one."""
    return changed(prepared, lambda tensor: tensor[None])
