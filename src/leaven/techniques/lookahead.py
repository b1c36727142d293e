"""Fast weights that run ahead, and slow ones that follow."""

from typing import Any

import torch
from torch import nn

from leaven.runtime.run.phase import Phase


class Lookahead:
    """After every `every` steps, and when an epoch ends, moves the slow weights `share` of the way to the fast ones,
    which go on from there."""

    def __init__(self, model: nn.Module, phase: Phase, every: int = 5, *, share: float = 0.5) -> None:
        self.slow = [weight.detach().clone() for weight in model.parameters()]
        self.phase = phase
        self.every = every
        self.share = share
        self.steps = 0  # since both were the same

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        self.steps += 1
        if self.steps < self.every and not self.phase.ends_epoch:
            return
        self.steps = 0
        for slow, fast in zip(self.slow, model.parameters(), strict=True):
            slow.lerp_(fast, self.share)
            fast.copy_(slow)

    def state_dict(self) -> dict[str, Any]:
        return {"slow": self.slow, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        for slow, saved in zip(self.slow, state["slow"], strict=True):
            slow.copy_(saved)
