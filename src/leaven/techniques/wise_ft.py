"""A point between the weights before and after fine-tuning."""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn

from leaven.runtime.freezing import below
from leaven.runtime.phase import Phase
from leaven.runtime.statistics import gather_statistics


class WiseFt:
    """Lets weights be measured and left in the model that lie `alpha` of the way from the phase's start to now."""

    def __init__(self, module: nn.Module, phase: Phase, layers: Sequence[str], alpha: float = 0.5) -> None:
        chosen = below(module, layers)
        self.start = {name: weight.detach().clone() for name, weight in module.named_parameters() if weight in chosen}
        self.between = deepcopy(module)
        self.phase = phase
        self.alpha = alpha

    @torch.no_grad()
    def model_for_eval(self, module: nn.Module) -> nn.Module:
        self.between.load_state_dict(module.state_dict())
        for name, weight in self.between.named_parameters():
            if name in self.start:
                weight.copy_(torch.lerp(self.start[name], weight, self.alpha))
        gather_statistics(self.between, module, self.phase)
        return self.between

    def at_end(self, module: nn.Module) -> None:
        module.load_state_dict(self.model_for_eval(module).state_dict())
