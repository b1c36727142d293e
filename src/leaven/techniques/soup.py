"""The mean of the weights of several epochs, those that are good for it."""

from copy import deepcopy
from typing import Any, Literal

import torch
from torch import Tensor, nn

from leaven.runtime.data.batches import Data
from leaven.runtime.run.batch_norm import update_batch_norm
from leaven.runtime.run.phase import Phase


class Soup:
    """Measures the mean of the epochs kept so far and the one at hand, which is kept if the score did not fall."""

    def __init__(
        self, model: nn.Module, data: Data, phase: Phase, way: Literal["greedy", "uniform"] = "greedy"
    ) -> None:
        self.tried = deepcopy(model)
        self.kept: dict[str, Tensor] = {}
        self.count = 0
        self.score: float | None = None
        self.phase = phase
        self.data = data
        self.way = way

    @torch.no_grad()
    def model_for_eval(self, model: nn.Module) -> nn.Module:
        self.tried.load_state_dict(model.state_dict())
        if self.count:
            for name, weight in self.tried.named_parameters():
                weight.lerp_(self.kept[name], self.count / (self.count + 1))
            update_batch_norm(self.tried, model, self.phase, self.data.train)
        return self.tried

    def after_epoch(self, phase: Phase, model: nn.Module, scores: dict[str, float]) -> None:
        if not phase.can_be_best:
            return
        score = phase.score_of(scores)
        if self.way == "greedy" and self.score is not None and score is not None and score < self.score:
            return
        self.kept = {name: tensor.clone() for name, tensor in self.tried.state_dict().items()}
        self.count += 1
        self.score = score

    def at_end(self, model: nn.Module) -> None:
        if self.kept:
            model.load_state_dict(self.kept)

    def state_dict(self) -> dict[str, Any]:
        return {"kept": self.kept, "count": self.count, "score": self.score}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.score = state["count"], state["score"]
        at_hand = self.tried.state_dict()
        self.kept = {name: tensor.to(at_hand[name].device) for name, tensor in state["kept"].items()}
