"""Pruned weights that stay zero: a mask over a layer's weight, whatever training does to the weight under it.

The mask is one of torch's parametrizations: the optimizer updates the unmasked weight, whose gradient is zero where
the mask is; checkpoints hold both. `apply_masks` removes the masks and leaves plain weights with zeros in them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

_PARAMETRIZED = ".parametrizations."  # where torch keeps what a parametrization is made of
_ORIGINAL = "original"


class Mask(nn.Module):
    """Which entries of a weight are kept. Copies of a model share it: an average of weights has the same zeros."""

    def __init__(self, kept: Tensor) -> None:
        super().__init__()
        self.kept: Tensor
        self.register_buffer("kept", kept)

    def forward(self, weight: Tensor) -> Tensor:
        # not a product: a pruned entry may hold anything, and zero times infinity is not a number
        return torch.where(self.kept, weight, torch.zeros((), dtype=weight.dtype, device=weight.device))

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight

    def __deepcopy__(self, memo: dict[int, Any]) -> "Mask":
        return self


def add_mask(layer: nn.Module, name: str = "weight") -> Mask:
    """Put a mask over a weight, which keeps all of it at first."""
    mask = Mask(torch.ones_like(getattr(layer, name), dtype=torch.bool))
    parametrize.register_parametrization(layer, name, mask)
    return mask


def apply_masks(model: nn.Module) -> None:
    """Make the masks of a model permanent, and remove them."""
    for layer, name in list(_masked(model)):
        parametrize.remove_parametrizations(layer, name, leave_parametrized=True)


def with_masks_applied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict as it is after `apply_masks`."""
    masks = [name for name in state if _PARAMETRIZED in name and name.endswith(".kept")]
    plain = {name: value for name, value in state.items() if name not in masks}
    for name in masks:
        original = f"{name.rsplit('.', 2)[0]}.{_ORIGINAL}"
        plain[original] = torch.where(state[name], plain[original], torch.zeros_like(plain[original]))
    masked = {f"{name.rsplit('.', 2)[0]}.{_ORIGINAL}" for name in masks}
    return {plain_name(name) if name in masked else name: value for name, value in plain.items()}


def plain_name(name: str) -> str:
    """The name of a weight without the mask over it."""
    layer, is_parametrized, rest = name.partition(_PARAMETRIZED)
    if is_parametrized and rest.endswith(f".{_ORIGINAL}"):
        return f"{layer}.{rest.removesuffix(f'.{_ORIGINAL}')}"
    return name


def has_masks(model: nn.Module) -> bool:
    """Whether any weight of a model has a mask."""
    return any(_masked(model))


def _masked(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for layer in model.modules():
        if parametrize.is_parametrized(layer):
            for name, made_of in layer.parametrizations.items():  # type: ignore[operator,union-attr]
                if any(isinstance(one, Mask) for one in made_of):
                    yield layer, name
