"""Runs on disk, and those that a lab has started: their state and rows, starting and stopping them.

A run is a process of its own, which goes on when the server ends.
"""

import math
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from leaven.api.problems import Refused
from leaven.formats import run_folder, sweep_folder
from leaven.formats.run_in_progress import is_in_progress

State = Literal["running", "finished", "stopped"]
PRINTED = "printed.txt"  # what a run that was started by a lab prints
MOST_POINTS = 1000
_SHOWN = 200_000  # bytes of it


class Runs:
    """The runs that were started here."""

    def __init__(self) -> None:
        self._started: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, folder: Path, words: Sequence[str], start: str) -> None:
        """Start the program of a run."""
        with (folder / PRINTED).open("ab") as printed:
            self._started[folder] = subprocess.Popen(
                list(words),
                cwd=start,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )

    def stop(self, folder: Path) -> bool:
        """Ask a run to save and stop; whether it was running."""
        running = self._started.get(folder)
        if running is None or running.poll() is not None:
            if is_in_progress(folder):
                raise Refused("the run was not started by this lab", "press Ctrl-C where it was started")
            return False
        running.send_signal(signal.SIGINT)
        return True

    def state(self, folder: Path) -> State:
        """Whether a run is under way, has saved its model, or was stopped before."""
        running = self._started.get(folder)
        if (running is not None and running.poll() is None) or is_in_progress(folder):
            return "running"
        return "finished" if run_folder.is_finished(folder) else "stopped"

    def short(self, folder: Path, name: str) -> dict[str, Any]:
        """A run in short."""
        lock = run_folder.read_json(folder / run_folder.LOCK)
        return {
            "run": name,
            "state": self.state(folder),
            "epochs": len(run_folder.read_metrics(folder)),
            "scores": {
                key: _finite(value)
                for key, value in run_folder.read_json(folder / run_folder.SCORES).items()
                if isinstance(value, int | float)
            },
            "started": str(lock.get("started", "")),
            "is_quick": run_folder.is_smoke_test(folder),
            "is_sweep": sweep_folder.is_sweep(folder),
        }

    def rows(self, folder: Path, since: int, limit: int) -> dict[str, Any]:
        """The rows of a run's metrics from one on."""
        state = self.state(folder)  # before the rows: what is written last is not missed
        every = run_folder.read_metrics(folder)
        found = [{name: _finite(value) for name, value in row.items()} for row in every[since : since + limit]]
        return {"rows": found, "next": since + len(found), "total": len(every), "state": state}


def printed(folder: Path) -> str:
    """The end of what a run has printed."""
    try:
        with (folder / PRINTED).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _SHOWN))
            return file.read(_SHOWN).decode("utf-8", "replace")
    except OSError:
        return ""


def points(rows: Sequence[dict[str, Any]], names: Iterable[str], most: int = MOST_POINTS) -> dict[str, Any]:
    """Columns of some rows as a chart; of many rows, the lowest and highest of each part stay."""
    names = list(names)
    kept = _kept(rows, names, most) if len(rows) > most else range(len(rows))
    series = [{"name": name, "values": [_number(rows[at].get(name)) for at in kept]} for name in names]
    return {"x": [float(at + 1) for at in kept], "series": series}


def _kept(rows: Sequence[dict[str, Any]], names: Sequence[str], most: int) -> list[int]:
    """The rows with the extremes of each part: for each series the lowest and the highest."""
    parts = max(1, (most - 2) // max(1, 2 * len(names)))
    chosen = {0, len(rows) - 1}
    for part in range(parts):
        inside = range(part * len(rows) // parts, (part + 1) * len(rows) // parts)
        for name in names:
            known = [at for at in inside if _number(rows[at].get(name)) is not None]
            if known:
                chosen |= {min(known, key=lambda at: rows[at][name]), max(known, key=lambda at: rows[at][name])}
    return sorted(chosen)[:most]


def _finite(value: Any) -> Any:
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
