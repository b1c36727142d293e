"""Re-initialising layers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import parameters_under

INITS: dict[str, Callable[[Tensor], Any]] = {
    "orthogonal": nn.init.orthogonal_,
    "xavier": nn.init.xavier_uniform_,
    "kaiming": nn.init.kaiming_normal_,
    "zeros": nn.init.zeros_,
}


@torch.no_grad()
def reinit(model: nn.Module, paths: Sequence[str], method: str = "default") -> None:
    """Re-initialise the parameters under the paths; by default as their own layers do."""
    chosen = parameters_under(model, paths)
    for name, module in model.named_modules():
        own = {key: value for key, value in module.named_parameters(recurse=False) if value in chosen}
        if not own:
            continue
        as_asked = {key: value for key, value in own.items() if _can_init(key, value, method)}
        if len(as_asked) < len(own):
            _reset(module, {key: value for key, value in own.items() if key not in as_asked}, name)
        for value in as_asked.values():
            (INITS[method] if value.dim() > 1 else nn.init.zeros_)(value)


def _can_init(key: str, value: Tensor, method: str) -> bool:
    """Whether `method` applies to a parameter: the scale of a norm, being a vector, can't be orthogonal."""
    return method == "zeros" or (method != "default" and (value.dim() > 1 or key.endswith("bias")))


def _reset(module: nn.Module, own: dict[str, nn.Parameter], name: str) -> None:
    """A layer re-initialised by its own method; its other parameters are kept."""
    reset = getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)
    if reset is None:
        raise Failure(
            f"the layer {name or type(module).__name__} has no `reset_parameters`",
            'leave it out, or say how to initialise it: `reinit …, method="zeros"`',
        )
    kept = {key: value.clone() for key, value in module.named_parameters(recurse=False) if key not in own}
    reset()
    for key, value in kept.items():
        getattr(module, key).copy_(value)
