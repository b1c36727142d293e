"""The state of a phase's loop: the epochs and batches that are done, the best epoch so far, and whether it is over.

Plain numbers, without a model or a file: what a checkpoint keeps of them is `state_dict`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leaven.runtime.failures import Failure
from leaven.runtime.run.length import EpochSize, Length

_SAVED = ("epoch", "batch", "best", "best_loss", "peak", "stale", "is_over", "is_stopped_early")
_OPEN_END = 1_000_000  # epochs that a phase of some minutes may have at most, for the seeds of the phases after it


@dataclass
class Loop:
    """`epoch` and `batch` count what is done. Scores are such that higher is better."""

    length: Length
    whole: EpochSize
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0  # of training, where the length is measured in minutes
    best: float | None = None
    best_loss: float = math.inf  # decides between epochs with the same score
    peak: float | None = None  # of the score for early stopping
    stale: int = 0  # epochs since then
    is_over: bool = False
    is_stopped_early: bool = False
    row: Mapping[str, Any] | None = None  # the scores of the current epoch, once they are there

    @property
    def epochs(self) -> int:
        """How many epochs there are; of the last, there may be only a part."""
        return math.ceil(self._batches("epochs") / max(1, self.whole.batches))

    @property
    def epoch_text(self) -> str:
        """`3/10`: the current epoch, and of how many where that is known."""
        return f"{self.epoch + 1}" + ("" if self.length.is_open else f"/{self.epochs}")

    @property
    def steps(self) -> int:
        """How many optimizer steps there are."""
        whole, batches = divmod(self._batches("steps"), max(1, self.whole.batches))
        return whole * self.whole.steps + math.ceil(batches / self.whole.accumulate)

    def _batches(self, unit: str) -> int:
        batches = self.length.batches(self.whole)
        if batches is None:
            raise Failure(
                f"how many {unit} a phase of {self.length.amount:g} minutes has is not known before it ends",
                f"use a schedule and techniques that don't depend on it, or give the phase a number of {unit}",
            )
        return batches

    @property
    def most_epochs(self) -> int:
        """How many epochs there are at most."""
        return _OPEN_END if self.length.is_open else self.epochs

    @property
    def batches_in_epoch(self) -> int:
        """How many batches the current epoch has: the last may be cut."""
        if self.length.is_open:
            return self.whole.batches
        return min(self.whole.batches, max(0, self._batches("") - self.epoch * self.whole.batches))

    @property
    def is_epoch_trained(self) -> bool:
        """Whether the current epoch has no batches left."""
        return self.batch >= self.batches_in_epoch or (self._is_time_up and self.batch % self.whole.accumulate == 0)

    @property
    def _is_time_up(self) -> bool:
        return self.length.is_open and self.seconds >= 60 * self.length.amount

    @property
    def is_step(self) -> bool:
        """Whether the current batch completes an optimizer step: with `accumulate`, every so many, and the last."""
        return (self.batch + 1) % self.whole.accumulate == 0 or self.ends_epoch

    @property
    def step(self) -> int:
        """The number of the current optimizer step in the phase, from 1."""
        return self.epoch * self.whole.steps + self.batch // self.whole.accumulate + 1

    @property
    def batches_in_step(self) -> int:
        """How many batches the current optimizer step averages: `accumulate`, or fewer at the end of an epoch."""
        first = self.batch - self.batch % self.whole.accumulate
        return min(self.whole.accumulate, self.batches_in_epoch - first)

    @property
    def ends_epoch(self) -> bool:
        """Whether the current batch is the last of its epoch."""
        return self.batch + 1 == self.batches_in_epoch

    @property
    def is_left(self) -> bool:
        """Whether an epoch is left to train."""
        return self.batches_in_epoch > 0 and not self._is_time_up and not self.is_over

    @property
    def awaits_scores(self) -> bool:
        """Whether an epoch has no batches left and no scores yet: saved like this, it is measured again."""
        return self.is_epoch_trained and self.row is None and not self.is_over

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
        self.epoch, self.batch, self.row = self.epoch + 1, 0, None
        self.is_stopped_early = patience is not None and self.stale >= max(1, patience)
        self.is_over = self.is_stopped_early or self._is_time_up or self.batches_in_epoch == 0

    def state_dict(self) -> dict[str, Any]:
        saved = {name: getattr(self, name) for name in _SAVED}
        return {"planned": self.length.amount, "seconds": self.seconds, **saved}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on where a loop was saved; one that has more epochs now is not over."""
        for name in _SAVED:
            setattr(self, name, saved[name])
        self.seconds = saved.get("seconds", 0.0)
        self.is_over = self.is_over and not self.is_longer_than(saved)
        self.is_stopped_early = self.is_over and self.is_stopped_early

    def is_longer_than(self, saved: Mapping[str, Any]) -> bool:
        """Whether the loop is longer than when it was saved."""
        return bool(self.length.amount > saved["planned"])
