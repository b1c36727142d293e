"""A point between the weights before and after fine-tuning."""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn

from leaven.runtime.data.batches import Data
from leaven.runtime.model.freezing import parameters_under
from leaven.runtime.run.batch_norm import update_batch_norm
from leaven.runtime.run.phase import Phase


class WiseFt:
    """Lets weights be measured and left in the model that lie `alpha` of the way from the phase's start to now."""

    def __init__(
        self, model: nn.Module, data: Data, phase: Phase, alpha: float = 0.5, *, layers: Sequence[str]
    ) -> None:
        chosen = parameters_under(model, layers)
        self.start = {name: weight.detach().clone() for name, weight in model.named_parameters() if weight in chosen}
        self.between = deepcopy(model)
        self.phase = phase
        self.data = data
        self.alpha = alpha

    @torch.no_grad()
    def model_for_eval(self, model: nn.Module) -> nn.Module:
        self.between.load_state_dict(model.state_dict())
        for name, weight in self.between.named_parameters():
            if name in self.start:
                weight.copy_(torch.lerp(self.start[name], weight, self.alpha))
        update_batch_norm(self.between, model, self.phase, self.data.train)
        return self.between

    def at_end(self, model: nn.Module) -> None:
        model.load_state_dict(self.model_for_eval(model).state_dict())
