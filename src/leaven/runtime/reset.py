"""Letting layers start anew."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.runtime.freezing import below

HOW: dict[str, Callable[[Tensor], Any]] = {
    "orthogonal": nn.init.orthogonal_,
    "xavier": nn.init.xavier_uniform_,
    "kaiming": nn.init.kaiming_normal_,
    "zeros": nn.init.zeros_,
}


@torch.no_grad()
def reinit(model: nn.Module, paths: Sequence[str], how: str = "default") -> None:
    """Give the parameters below the paths fresh random weights; by default as their own layers draw them."""
    chosen = below(model, paths)
    for name, module in model.named_modules():
        own = {key: value for key, value in module.named_parameters(recurse=False) if value in chosen}
        if not own:
            continue
        if how == "default":
            _redrawn(module, own, name)
        else:
            for value in own.values():
                (HOW[how] if value.dim() > 1 else nn.init.zeros_)(value)


def _redrawn(module: nn.Module, own: dict[str, nn.Parameter], name: str) -> None:
    """A layer drawn as it does itself; what of it was not chosen stays."""
    reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
    if reset is None:
        raise Failure(
            f"the layer {name or type(module).__name__} does not know how to start anew",
            'say how to draw its weights: `reinit …, how="orthogonal"`',
        )
    kept = {key: value.clone() for key, value in module.named_parameters(recurse=False) if key not in own}
    reset()
    for key, value in kept.items():
        getattr(module, key).copy_(value)
