"""What an optimizer has gathered about each weight, taken from one phase to the next by the weights' names."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure

_KIND = "optimizer"


def optimizer_state_of(optimizer: torch.optim.Optimizer, module: nn.Module) -> dict[str, Any]:
    """Momentum and the like, by the names of the weights."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    found = {names[weight]: state for weight, state in optimizer.state.items() if weight in names}
    return {_KIND: type(optimizer).__name__, "state": found}


def load_optimizer_state(gathered: Mapping[str, Any], optimizer: torch.optim.Optimizer, module: nn.Module) -> None:
    """Let an optimizer go on with what another of its kind has gathered, as far as it holds the same weights."""
    if not gathered:
        return
    if gathered[_KIND] != type(optimizer).__name__:
        raise Failure(
            f"{type(optimizer).__name__} can't go on with what {gathered[_KIND]} has gathered in the phase before",
            "use the same optimizer in both phases, or leave out `keep=optimizer`",
        )
    names = {parameter: name for name, parameter in module.named_parameters()}
    for group in optimizer.param_groups:
        for weight in group["params"]:
            state = gathered["state"].get(names.get(weight))
            if state is not None and all(_fits(value, weight) for value in state.values()):
                optimizer.state[weight] = {key: _copy(value, weight) for key, value in state.items()}


def _fits(value: Any, weight: Tensor) -> bool:
    return not isinstance(value, Tensor) or value.dim() == 0 or value.shape == weight.shape


def _copy(value: Any, weight: Tensor) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.clone() if value.dim() == 0 else value.to(weight.device, copy=True)
