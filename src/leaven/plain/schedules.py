"""Learning-rate schedules: a torch scheduler that the program steps once per optimizer step."""

import math
from typing import Any

import torch


def cosine(optimizer: Any, steps: int, *, warmup_share: float = 0) -> torch.optim.lr_scheduler.LambdaLR:
    """Decays along half a cosine, after a warm-up over a share of the steps."""
    rising = round(warmup_share * steps)

    def rate(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)
        return (1 + math.cos(math.pi * min(1.0, (step - rising) / max(1, steps - rising)))) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
