"""The state of a phase's loop: the epochs and batches that are done, the best epoch so far, and whether it is over.

Plain numbers, without a model or a file: what a checkpoint keeps of them is `state_dict`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SAVED = ("epoch", "batch", "best", "best_loss", "peak", "stale", "is_over", "is_stopped_early")


@dataclass
class Loop:
    """`epoch` and `batch` count what is done. Scores are such that higher is better."""

    epochs: int
    batches_per_epoch: int
    accumulate: int = 1
    epoch: int = 0
    batch: int = 0
    best: float | None = None
    best_loss: float = math.inf  # decides between epochs with the same score
    peak: float | None = None  # of the score for early stopping
    stale: int = 0  # epochs since then
    is_over: bool = False
    is_stopped_early: bool = False

    @property
    def steps_per_epoch(self) -> int:
        """How many optimizer steps an epoch has."""
        return math.ceil(self.batches_per_epoch / self.accumulate)

    @property
    def is_step(self) -> bool:
        """Whether the current batch completes an optimizer step: with `accumulate`, every so many, and the last."""
        return (self.batch + 1) % self.accumulate == 0 or self.ends_epoch

    @property
    def batches_in_step(self) -> int:
        """How many batches the current optimizer step averages: `accumulate`, or fewer at the end of an epoch."""
        first = self.batch - self.batch % self.accumulate
        return min(self.accumulate, self.batches_per_epoch - first)

    @property
    def ends_epoch(self) -> bool:
        """Whether the current batch is the last of its epoch."""
        return self.batch + 1 == self.batches_per_epoch

    @property
    def is_left(self) -> bool:
        """Whether an epoch is left to train."""
        return self.epoch < self.epochs and not self.is_over

    def is_best(self, score: float, loss: float) -> bool:
        """Whether the current epoch is the best so far, which is then the one to beat."""
        if self.best is not None and (score, -loss) <= (self.best, -self.best_loss):
            return False
        self.best, self.best_loss = score, loss
        return True

    def count_stale(self, score: float, at_least: float) -> None:
        """Count the epochs in which a score has not improved by `at_least`."""
        is_better = self.peak is None or score > self.peak + at_least
        self.peak, self.stale = (score, 0) if is_better else (self.peak, self.stale + 1)

    def end_epoch(self, patience: int | None) -> None:
        """Go on to the next epoch; with `patience`, the loop is over after so many stale epochs, or one."""
        self.epoch, self.batch = self.epoch + 1, 0
        self.is_stopped_early = patience is not None and self.stale >= max(1, patience)
        self.is_over = self.is_stopped_early or self.epoch >= self.epochs

    def state_dict(self) -> dict[str, Any]:
        return {"planned": self.epochs, **{name: getattr(self, name) for name in _SAVED}}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on where a loop was saved; one that has more epochs now is not over."""
        for name in _SAVED:
            setattr(self, name, saved[name])
        self.is_over = self.is_over and not self.is_longer_than(saved)
        self.is_stopped_early = self.is_over and self.is_stopped_early

    def is_longer_than(self, saved: Mapping[str, Any]) -> bool:
        """Whether the loop has more epochs than when it was saved."""
        return bool(self.epochs > saved["planned"])
