"""Where a phase is in its run: the bars of its epochs, and how long the whole run still takes."""

import time
from typing import TYPE_CHECKING

from leaven.runtime.run.progress import Bar
from leaven.runtime.run.time_left import Pace, time_text
from leaven.terminal.score_text import score_text

if TYPE_CHECKING:
    from leaven.runtime.run.phase import Phase


class Outlook:
    """What a phase shows while it runs, measured in its own epochs."""

    def __init__(self, phase: "Phase") -> None:
        self._phase = phase
        self._pace = Pace()
        self._began = time.monotonic()
        self._validation: Bar | None = None  # of the current epoch
        self.seen = 0  # samples in this epoch, since it began or was resumed

    @property
    def title(self) -> str:
        """`head 3/10`."""
        return f"{self._phase.name} {self._phase.epoch + 1}/{self._phase.total_epochs}"

    def begin_epoch(self) -> None:
        self._began, self._validation, self.seen = time.monotonic(), None, 0
        self._pace.begin_epoch(self._part_done())

    def end_epoch(self) -> None:
        self._pace.end_epoch()

    def training(self) -> Bar:
        """The bar of the epoch's training."""
        phase = self._phase
        title, is_shown = f"{self.title} training", phase.run.shows_training
        return Bar(title, phase.batches_per_epoch, phase.batch, self._training_facts, is_shown=is_shown)

    def validation(self, batches: int) -> Bar:
        """The bar of the epoch's validation."""
        self._validation = self.bar("validation", batches)
        return self._validation

    def bar(self, what: str, batches: int) -> Bar:
        """The bar of something else that is done to all batches in an epoch."""
        is_shown = self._phase.run.trial is None
        return Bar(f"{self.title} {what}", batches, facts=self._run_facts, is_shown=is_shown)

    def seconds_left(self) -> float | None:
        """For the whole run; None where that is not known."""
        after = self._epochs_after()
        return None if after is None else self._pace.seconds_left(self._part_done(), after)

    def _part_done(self) -> float:
        """Which part of the epoch is done; batches of training and of validation count the same."""
        phase, bar = self._phase, self._validation
        done, total = (bar.done, bar.total) if bar is not None else (0, phase.run.evaluation_batches(phase.data.val))
        return (phase.batch + done) / max(1, phase.batches_per_epoch + total)

    def _epochs_after(self) -> int | None:
        """How many epochs the run has after the current one; None where only the program knows."""
        phase = self._phase
        in_phase = phase.total_epochs - phase.epoch - 1
        if phase.is_last:
            return in_phase
        later = phase.run.total_epochs - phase.epochs_before - phase.total_epochs
        return None if phase.run.is_quick or later < 0 else in_phase + later + phase.run.more_epochs

    def _run_facts(self) -> list[str]:
        """`epoch 12/13` of all phases, and `~40 s left`."""
        phase, after, left = self._phase, self._epochs_after(), self.seconds_left()
        number = phase.epochs_before + phase.epoch + 1
        is_whole = phase.is_last and not phase.epochs_before
        facts = [] if after is None or is_whole or phase.run.is_quick else [f"epoch {number}/{number + after}"]
        return [*facts, *([time_text(left)] if left is not None else [])]

    def _training_facts(self) -> list[str]:
        loss, seconds = self._phase.losses.last, time.monotonic() - self._began
        facts = [f"loss {score_text(loss)}"] if loss is not None else []
        return [*self._run_facts(), *facts, *([f"{self.seen / seconds:.0f} samples/s"] if self.seen else [])]
