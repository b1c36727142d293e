"""Learning-rate schedules: a torch scheduler that the program steps once per optimizer step."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def cosine(optimizer: Optimizer, steps: int, *, warmup: float = 0) -> LambdaLR:
    """Down along half a cosine, after a warm-up over a share of the steps."""
    rising = round(warmup * steps)

    def rate(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)
        progress = min(1.0, (step - rising) / max(1, steps - rising))
        return (1 + math.cos(math.pi * progress)) / 2

    return LambdaLR(optimizer, rate)
