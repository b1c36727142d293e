"""How long the rest of a run takes, estimated from what was measured so far.

Epochs of the same phase take about the same time; later phases count as if theirs took as long as those of this one,
which is why the estimate is printed with a `~`.
"""

import time
from collections.abc import Callable

_RECENT = 3  # epochs that count
_SHORTEST = 1.0  # seconds that must be measured before anything is said


class Pace:
    """Measures the epochs of a phase, with their validation. The part of an epoch that is done is between 0 and 1."""

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
