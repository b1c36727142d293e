"""Where a phase is in its run: the bars of its epochs, and how long the whole run still takes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from leaven.runtime.run.loop import Loop
from leaven.runtime.run.progress import Bar
from leaven.terminal import status_line
from leaven.terminal.score_text import score_text
from leaven.terminal.visible import visible

_RECENT = 3  # epochs that count
_SHORTEST = 1.0  # seconds that must be measured before anything is said
_LONG = 60.0  # seconds that must be left before the line of an epoch says so


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

    def epoch_line(self, scores: Mapping[str, float], seconds: float) -> str:
        """`head 3/10  train.loss 0.4312  val.accuracy 0.9444  4.1 s`; in the log of a long run, also the time left."""
        logged, left = "  ".join(f"{name} {score_text(value)}" for name, value in scores.items()), self.seconds_left()
        told = f"  {time_text(left)}" if left is not None and left >= _LONG and not status_line.is_watched() else ""
        return f"{visible(self.title)}  {logged}  {seconds:.1f} s{told}"

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


class Pace:
    """Measures the epochs of a phase, with their validation. The part of an epoch that is done is between 0 and 1.

    Epochs of the same phase take about the same time; later phases count as if theirs took as long as those of this
    one, which is why the estimate is printed with a `~`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._measured: list[float] = []
        self._began = clock()
        self._part_before = 0.0

    def begin_epoch(self, part_before: float = 0.0) -> None:
        """An epoch begins, or the rest of one that was interrupted."""
        self._began, self._part_before = self._clock(), part_before

    def end_epoch(self) -> None:
        self._measured.append((self._clock() - self._began) / max(1e-6, 1 - self._part_before))

    def seconds_left(self, part: float, epochs_after: int) -> float | None:
        """For the rest of the current epoch and those after it; None as long as too little is measured."""
        recent = self._measured[-_RECENT:]
        if recent:
            seconds = sum(recent) / len(recent)
        else:
            elapsed, done = self._clock() - self._began, part - self._part_before
            if elapsed < _SHORTEST or done <= 0:
                return None
            seconds = elapsed / done
        return seconds * (max(0.0, 1 - part) + epochs_after)


def time_text(seconds: float) -> str:
    """`~40 s left`, `~3 min left`, `~2 h 10 min left`: no more digits than an estimate deserves."""
    if seconds < 90:
        return f"~{max(1, round(seconds))} s left"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"~{minutes} min left"
    hours, minutes = divmod(round(minutes, -1), 60)
    return f"~{hours} h {minutes} min left" if minutes and hours < 10 else f"~{round(seconds / 3600)} h left"
