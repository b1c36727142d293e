"""The state of an optimizer (momentum and the like), passed from one phase to the next by the parameters' names."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure

_KIND = "optimizer"


def optimizer_state_of(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """The state of an optimizer, by the names of the parameters."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    found = {names[parameter]: state for parameter, state in optimizer.state.items() if parameter in names}
    return {_KIND: type(optimizer).__name__, "state": found}


def load_optimizer_state(saved: Mapping[str, Any], optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    """Let an optimizer continue with the state of another of its kind, for the parameters that both have."""
    if not saved:
        return
    if saved[_KIND] != type(optimizer).__name__:
        raise Failure(
            f"{type(optimizer).__name__} can't continue with the state of {saved[_KIND]} in the phase before",
            "use the same optimizer in both phases, or remove `keep=optimizer`",
        )
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = saved["state"].get(names.get(parameter))
            if state is not None and all(_fits(value, parameter) for value in state.values()):
                optimizer.state[parameter] = {key: _copy(value, parameter) for key, value in state.items()}


def _fits(value: Any, parameter: Tensor) -> bool:
    return not isinstance(value, Tensor) or value.dim() == 0 or value.shape == parameter.shape


def _copy(value: Any, parameter: Tensor) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.clone() if value.dim() == 0 else value.to(parameter.device, copy=True)
