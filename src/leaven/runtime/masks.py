"""Weights that are out and stay out: a mask over a layer's weight, whatever training does to the weight below it.

The mask is a parametrization of torch's: the optimizer moves the weight as it is without the mask, whose gradient is
zero where the mask is; checkpoints hold both. `settle` ends it and leaves plain weights with zeros in them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

_BELOW = ".parametrizations."  # where torch keeps what a parametrization is made of
_WHOLE = "original"


class Mask(nn.Module):
    """Which numbers of a weight are there. Copies of a model share it: an average of weights has the same ones."""

    def __init__(self, kept: Tensor) -> None:
        super().__init__()
        self.kept: Tensor
        self.register_buffer("kept", kept)

    def forward(self, weight: Tensor) -> Tensor:
        # not a product: what is out may be anything, and nothing times infinity is not a number
        return torch.where(self.kept, weight, torch.zeros((), dtype=weight.dtype, device=weight.device))

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight

    def __deepcopy__(self, memo: dict[int, Any]) -> "Mask":
        return self


def cover(layer: nn.Module, name: str = "weight") -> Mask:
    """Lay a mask over a weight, under which all of it is there yet."""
    mask = Mask(torch.ones_like(getattr(layer, name), dtype=torch.bool))
    parametrize.register_parametrization(layer, name, mask)
    return mask


def settle(module: nn.Module) -> None:
    """Make permanent what the masks of a model say, and take them away."""
    for layer, name in list(_covered(module)):
        parametrize.remove_parametrizations(layer, name, leave_parametrized=True)


def settled(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict as `settle` would leave it."""
    masks = [name for name in state if _BELOW in name and name.endswith(".kept")]
    plain = {name: value for name, value in state.items() if name not in masks}
    for name in masks:
        whole = f"{name.rsplit('.', 2)[0]}.{_WHOLE}"
        plain[whole] = torch.where(state[name], plain[whole], torch.zeros_like(plain[whole]))
    covered = {f"{name.rsplit('.', 2)[0]}.{_WHOLE}" for name in masks}
    return {plain_name(name) if name in covered else name: value for name, value in plain.items()}


def plain_name(name: str) -> str:
    """What a weight is called without the mask over it."""
    layer, is_below, rest = name.partition(_BELOW)
    return f"{layer}.{rest.removesuffix(f'.{_WHOLE}')}" if is_below and rest.endswith(f".{_WHOLE}") else name


def is_covered(module: nn.Module) -> bool:
    """Whether there is a mask anywhere in a model."""
    return any(_covered(module))


def _covered(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    for layer in module.modules():
        if parametrize.is_parametrized(layer):
            for name, made_of in layer.parametrizations.items():  # type: ignore[operator,union-attr]
                if any(isinstance(one, Mask) for one in made_of):
                    yield layer, name
