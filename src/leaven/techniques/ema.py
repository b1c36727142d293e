"""A running average of the weights."""

from typing import Any

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Ema:
    """Keeps the average, lets it be measured in place of the weights, and leaves it in the model at the end."""

    def __init__(self, module: nn.Module, decay: float = 0.999) -> None:
        self.average = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)

    def after_step(self, module: nn.Module) -> None:
        self.average.update_parameters(module)

    def model_for_eval(self, module: nn.Module) -> nn.Module:
        return self.average.module

    def at_end(self, module: nn.Module) -> None:
        module.load_state_dict(self.average.module.state_dict())

    def state_dict(self) -> dict[str, Any]:
        return self.average.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state)
