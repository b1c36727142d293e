"""Where a phase is in its run: the bars of its epochs, and how long the whole run still takes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from leaven.runtime.run.loop import Loop
from leaven.runtime.run.progress import Bar
from leaven.runtime.run.time_left import Pace, time_text
from leaven.terminal.score_text import score_text


@dataclass(eq=False, kw_only=True)
class Outlook:
    """The bars of a phase and the time left, measured in its own epochs; it listens to the loop and decides nothing.

    `epochs_before` and `epochs_after` are those of the other phases; the latter are None where only the program knows.
    """

    phase: str
    loop: Loop
    epochs_before: int
    epochs_after: int | None
    validation_batches: int
    is_quick: bool
    is_shown: bool
    seen: int = 0  # samples in this epoch, since it began or was resumed

    def __post_init__(self) -> None:
        self._pace = Pace()
        self._began = time.monotonic()
        self._validation: Bar | None = None  # of the current epoch

    @property
    def title(self) -> str:
        """`head 3/10`."""
        return f"{self.phase} {self.loop.epoch_text}"

    def begin_epoch(self) -> None:
        self._began, self._validation, self.seen = time.monotonic(), None, 0
        self._pace.begin_epoch(self._part_done())

    def end_epoch(self) -> None:
        self._pace.end_epoch()

    def training(self, loss: Callable[[], float | None], *, is_shown: bool) -> Bar:
        """The bar of the epoch's training; `loss` returns that of the last batch."""
        title, total, done = f"{self.title} training", self.loop.batches_in_epoch, self.loop.batch
        return Bar(title, total, done, lambda: self._training_facts(loss()), is_shown=is_shown)

    def validation(self, batches: int) -> Bar:
        """The bar of the epoch's validation."""
        self._validation = self.bar("validation", batches)
        return self._validation

    def bar(self, what: str, batches: int) -> Bar:
        """The bar of something else that is done to all batches in an epoch."""
        return Bar(f"{self.title} {what}", batches, facts=self._run_facts, is_shown=self.is_shown)

    def seconds_left(self) -> float | None:
        """For the whole run; None where that is not known."""
        after = self._left()
        return None if after is None else self._pace.seconds_left(self._part_done(), after)

    def _part_done(self) -> float:
        """Which part of the epoch is done; batches of training and of validation count the same."""
        loop, bar = self.loop, self._validation
        done, total = (bar.done, bar.total) if bar is not None else (0, self.validation_batches)
        return (loop.batch + done) / max(1, loop.batches_in_epoch + total)

    def _left(self) -> int | None:
        """How many epochs the run has after the current one; None where only the program knows."""
        if self.epochs_after is None or self.loop.length.is_open:
            return None
        return self.loop.epochs - self.loop.epoch - 1 + self.epochs_after

    def _run_facts(self) -> list[str]:
        """`epoch 12/13` of all phases, and `~40 s left`."""
        after, left = self._left(), self.seconds_left()
        number = self.epochs_before + self.loop.epoch + 1
        is_whole = not self.epochs_before and not self.epochs_after
        facts = [] if after is None or is_whole or self.is_quick else [f"epoch {number}/{number + after}"]
        return [*facts, *([time_text(left)] if left is not None else [])]

    def _training_facts(self, loss: float | None) -> list[str]:
        seconds = time.monotonic() - self._began
        facts = [f"loss {score_text(loss)}"] if loss is not None else []
        return [*self._run_facts(), *facts, *([f"{self.seen / seconds:.0f} samples/s"] if self.seen else [])]
