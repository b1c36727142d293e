"""What training records in `training.jsonl`: rows in their order, appended while the run trains.

A checkpoint has the size of the file, so that a resumed run goes on after the rows of its checkpoint, and ends with
those of a run that was never interrupted. Nothing in a row depends on the time.
"""

import time
from collections.abc import Mapping
from typing import Any

from leaven.formats.training_record import TRAINING, as_line
from leaven.runtime.run.folder import RunFolder

_EVERY = 1.0  # seconds between two writes, for those who follow


class TrainingRecord:
    """The rows of a run. Those of trials wait for their checkpoints, as all that they write does."""

    def __init__(self, folder: RunFolder, saved: Mapping[str, Any] | None, *, trains: bool) -> None:
        self.folder = folder
        self._lines: list[str] = []
        self._written_at = time.monotonic()
        self._is_kept = trains and folder.writes
        self.size = folder.cut(TRAINING, saved.get("recorded", 0) if saved is not None else 0) if self._is_kept else 0

    def add(self, kind: str, phase: int, **facts: Any) -> None:
        """Add a row."""
        if not self._is_kept:
            return
        self._lines.append(as_line({"kind": kind, "phase": phase, **facts}))
        if not self.folder.waits and time.monotonic() - self._written_at >= _EVERY:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        self._written_at = time.monotonic()
        if self._lines:
            lines, self._lines = self._lines, []
            self.size = self.folder.append(TRAINING, "".join(lines))


def rounded(value: float) -> float:
    """A number with the digits that a curve needs."""
    return float(f"{value:.6g}")
