"""Learning-rate schedules: how the rate of every parameter group changes, as a multiple of its own.

Each function returns a torch scheduler that the program steps once per optimizer step, `plateau` once per epoch.
`steps` is the number of optimizer steps of the phase. During a warm-up, a number of steps or a share of all of them,
the rate rises from zero.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, SupportsFloat

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau


def cosine(
    optimizer: Optimizer, steps: int, *, warmup_steps: int = 0, warmup_share: float = 0.0, end: float = 0.0
) -> LambdaLR:
    """Decays along half a cosine, from the full rate to `end` times it."""
    rising = warmup_steps + round(warmup_share * steps)
    return _decay(optimizer, steps, rising, lambda progress: end + (1 - end) * _half_cosine(progress))


def linear(
    optimizer: Optimizer, steps: int, *, warmup_steps: int = 0, warmup_share: float = 0.0, end: float = 0.0
) -> LambdaLR:
    """Decays along a straight line, from the full rate to `end` times it."""
    rising = warmup_steps + round(warmup_share * steps)
    return _decay(optimizer, steps, rising, lambda progress: 1 - (1 - end) * progress)


def polynomial(
    optimizer: Optimizer,
    steps: int,
    *,
    warmup_steps: int = 0,
    warmup_share: float = 0.0,
    power: float = 2.0,
    end: float = 0.0,
) -> LambdaLR:
    """Decays along a power of what is left, from the full rate to `end` times it."""
    rising = warmup_steps + round(warmup_share * steps)
    return _decay(optimizer, steps, rising, lambda progress: end + (1 - end) * (1 - progress) ** power)


def constant(optimizer: Optimizer, *, warmup_steps: int = 0) -> LambdaLR:
    """The full rate throughout."""
    return LambdaLR(optimizer, lambda step: _rise(step, warmup_steps))


def step_down(optimizer: Optimizer, *, every: int, factor: float = 0.1, warmup_steps: int = 0) -> LambdaLR:
    """Times `factor` after every so many steps."""
    return LambdaLR(optimizer, lambda step: _rise(step, warmup_steps) * factor ** (step // every))


def multi_step(optimizer: Optimizer, *, at: Sequence[int], factor: float = 0.1, warmup_steps: int = 0) -> LambdaLR:
    """Times `factor` at each of the given steps."""
    return LambdaLR(optimizer, lambda step: _rise(step, warmup_steps) * factor ** sum(step >= each for each in at))


def one_cycle(
    optimizer: Optimizer,
    steps: int,
    *,
    peak: float,
    warmup_steps: int = 0,
    warmup_share: float = 0.0,
    start: float = 0.04,
    end: float = 4e-6,
) -> LambdaLR:
    """Up along half a cosine from `start` times the peak rate, and down along another to `end` times it."""
    rising = warmup_steps + round(warmup_share * steps)
    for group in optimizer.param_groups:  # they keep their proportions
        group["lr"] = peak * (group["lr"] / optimizer.defaults["lr"])

    def rate(step: int) -> float:
        if step < rising:
            return 1 - (1 - start) * _half_cosine(step / rising)
        return end + (1 - end) * _half_cosine(min(1.0, (step - rising) / max(1, steps - 1 - rising)))

    return LambdaLR(optimizer, rate)


def plateau(
    optimizer: Optimizer, *, higher_is_better: bool, factor: float = 0.1, patience: int = 10, warmup_steps: int = 0
) -> "Plateau":
    """Times `factor` when a score has not improved for more than `patience` epochs."""
    return Plateau(optimizer, "max" if higher_is_better else "min", factor, patience, warmup_steps)


class Plateau(ReduceLROnPlateau):
    """Torch's, with a warm-up: `warm_up` after every optimizer step; scores count once it is over."""

    def __init__(self, optimizer: Optimizer, mode: Literal["min", "max"], factor: float, patience: int, warmup: int):
        super().__init__(optimizer, mode, factor, patience)
        self.warmup = warmup
        self.warmed_up = 0  # steps
        self.full = [group["lr"] for group in optimizer.param_groups]
        self._set_rates()

    def warm_up(self) -> None:
        if self.warmed_up < self.warmup:
            self.warmed_up += 1
            self._set_rates()

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        if self.warmed_up >= self.warmup:
            super().step(metrics, epoch)

    def _set_rates(self) -> None:
        for group, full in zip(self.optimizer.param_groups, self.full, strict=True):
            group["lr"] = full * _rise(self.warmed_up, self.warmup)


def _decay(optimizer: Optimizer, steps: int, rising: int, shape: Callable[[float], float]) -> LambdaLR:
    """A warm-up, then a function of the share of the remaining steps that is done."""

    def rate(step: int) -> float:
        if step < rising:
            return _rise(step, rising)
        return shape(min(1.0, (step - rising) / max(1, steps - rising)))

    return LambdaLR(optimizer, rate)


def _rise(step: int, warmup: int) -> float:
    """The share of the full rate during the warm-up; it is not zero in the first step."""
    return (step + 1) / (warmup + 1) if step < warmup else 1.0


def _half_cosine(progress: float) -> float:
    """From one to zero along half a cosine."""
    return (1 + math.cos(math.pi * progress)) / 2
