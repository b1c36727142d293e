"""A running average of the weights."""

from typing import Any

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Ema:
    """Keeps the average, lets it be measured in place of the weights, and leaves it in the model at the end."""

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)

    def after_step(self, model: nn.Module) -> None:
        self.average.update_parameters(model)

    def model_for_eval(self, model: nn.Module) -> nn.Module:
        return self.average.module

    def at_end(self, model: nn.Module) -> None:
        model.load_state_dict(self.average.module.state_dict())

    def state_dict(self) -> dict[str, Any]:
        return self.average.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state)
