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
        drawn_as_asked = {key: value for key, value in own.items() if _is_drawn(key, value, how)}
        if len(drawn_as_asked) < len(own):
            _redrawn(module, {key: value for key, value in own.items() if key not in drawn_as_asked}, name)
        for value in drawn_as_asked.values():
            (HOW[how] if value.dim() > 1 else nn.init.zeros_)(value)


def _is_drawn(key: str, value: Tensor, how: str) -> bool:
    """Whether `how` can draw a parameter: a scale, as norms have, has no directions that could be orthogonal."""
    return how == "zeros" or (how != "default" and (value.dim() > 1 or key.endswith("bias")))


def _redrawn(module: nn.Module, own: dict[str, nn.Parameter], name: str) -> None:
    """A layer drawn as it does itself; what of it was not chosen stays."""
    reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
    if reset is None:
        raise Failure(
            f"the layer {name or type(module).__name__} does not know how to start anew",
            'leave it out, or say how to draw its weights: `reinit …, how="zeros"`',
        )
    kept = {key: value.clone() for key, value in module.named_parameters(recurse=False) if key not in own}
    reset()
    for key, value in kept.items():
        getattr(module, key).copy_(value)
