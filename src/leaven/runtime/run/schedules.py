"""Learning-rate schedules: how the rate of every group changes, as a multiple of what the recipe gives it.

Each function returns a torch scheduler that the program steps once per optimizer step, `plateau` once per epoch.
`steps` is how many optimizer steps the phase has; `warmup` is how many of them the rate climbs from nothing.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, SupportsFloat

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau


def cosine(optimizer: Optimizer, steps: int, *, warmup: int = 0, end: float = 0.0) -> LambdaLR:
    """Down along half a cosine, from the full rate to `end` times it."""
    return _shaped(optimizer, steps, warmup, lambda share: end + (1 - end) * _half_wave(share))


def linear(optimizer: Optimizer, steps: int, *, warmup: int = 0, end: float = 0.0) -> LambdaLR:
    """Down along a straight line, from the full rate to `end` times it."""
    return _shaped(optimizer, steps, warmup, lambda share: 1 - (1 - end) * share)


def polynomial(optimizer: Optimizer, steps: int, *, warmup: int = 0, power: float = 2.0, end: float = 0.0) -> LambdaLR:
    """Down along a power of what is left, from the full rate to `end` times it."""
    return _shaped(optimizer, steps, warmup, lambda share: end + (1 - end) * (1 - share) ** power)


def constant(optimizer: Optimizer, *, warmup: int = 0) -> LambdaLR:
    """The full rate throughout."""
    return LambdaLR(optimizer, lambda step: _climb(step, warmup))


def step_down(optimizer: Optimizer, *, every: int, factor: float = 0.1, warmup: int = 0) -> LambdaLR:
    """Times `factor` after every so many steps."""
    return LambdaLR(optimizer, lambda step: _climb(step, warmup) * factor ** (step // every))


def multi_step(optimizer: Optimizer, *, at: Sequence[int], factor: float = 0.1, warmup: int = 0) -> LambdaLR:
    """Times `factor` at each of the given steps."""
    return LambdaLR(optimizer, lambda step: _climb(step, warmup) * factor ** sum(step >= each for each in at))


def one_cycle(
    optimizer: Optimizer, steps: int, *, peak: float, warmup: int, start: float = 0.04, end: float = 4e-6
) -> LambdaLR:
    """Up along half a cosine from `start` times the peak rate, and down along another to `end` times it."""
    for group in optimizer.param_groups:  # they keep their proportions
        group["lr"] = peak * (group["lr"] / optimizer.defaults["lr"])

    def rate(step: int) -> float:
        if step < warmup:
            return 1 - (1 - start) * _half_wave(step / warmup)
        return end + (1 - end) * _half_wave(min(1.0, (step - warmup) / max(1, steps - 1 - warmup)))

    return LambdaLR(optimizer, rate)


def plateau(
    optimizer: Optimizer, *, higher_is_better: bool, factor: float = 0.1, patience: int = 10, warmup: int = 0
) -> "Plateau":
    """Times `factor` when a score has not improved for more than `patience` epochs."""
    return Plateau(optimizer, "max" if higher_is_better else "min", factor, patience, warmup)


class Plateau(ReduceLROnPlateau):
    """Torch's, with a climb before: `climb` after every optimizer step; scores count once it is over."""

    def __init__(self, optimizer: Optimizer, mode: Literal["min", "max"], factor: float, patience: int, warmup: int):
        super().__init__(optimizer, mode, factor, patience)
        self.warmup = warmup
        self.climbed = 0
        self.full = [group["lr"] for group in optimizer.param_groups]
        self._set_rates()

    def climb(self) -> None:
        if self.climbed < self.warmup:
            self.climbed += 1
            self._set_rates()

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        if self.climbed >= self.warmup:
            super().step(metrics, epoch)

    def _set_rates(self) -> None:
        for group, full in zip(self.optimizer.param_groups, self.full, strict=True):
            group["lr"] = full * _climb(self.climbed, self.warmup)


def _shaped(optimizer: Optimizer, steps: int, warmup: int, shape: Callable[[float], float]) -> LambdaLR:
    """A climb, then a shape over the share of the way that is done."""

    def rate(step: int) -> float:
        if step < warmup:
            return _climb(step, warmup)
        return shape(min(1.0, (step - warmup) / max(1, steps - warmup)))

    return LambdaLR(optimizer, rate)


def _climb(step: int, warmup: int) -> float:
    """The share of the full rate while it climbs; the first step already moves."""
    return (step + 1) / (warmup + 1) if step < warmup else 1.0


def _half_wave(share: float) -> float:
    """From one to nothing along half a cosine."""
    return (1 + math.cos(math.pi * share)) / 2
