"""How far a run is, read from its folder: epochs, loss, the score that decides, and about how long it still takes."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from leaven.formats import run_folder, sweep_folder
from leaven.terminal.score_text import score_text
from leaven.terminal.visible import visible

_LONGEST = 100  # characters of a name
_RECENT = 3  # epochs from which the time left is estimated


@dataclass(frozen=True)
class Progress:
    """The last epoch of a run; of a sweep, how many trials are done."""

    epoch: int
    epochs: int | None
    phase: str = ""
    loss: float | None = None
    metric: str = ""
    score: float | None = None
    seconds_left: float | None = None
    counts_trials: bool | None = None  # where it is a sweep, in place of epochs

    def to_json(self) -> str:
        """As JSON, which has no NaN."""
        known = {name: value for name, value in asdict(self).items() if value not in (None, "")}
        is_nan = {name for name, value in known.items() if isinstance(value, float) and not math.isfinite(value)}
        return json.dumps({name: value for name, value in known.items() if name not in is_nan})


def read_progress(run: Path, epochs: int | None, monitor: str) -> Progress | None:
    """How far a run is; None before its first epoch has ended. Of a sweep, trials are counted."""
    if sweep_folder.is_sweep(run):
        return _sweep_progress(run)
    rows = run_folder.read_metrics(run)
    if not rows:
        return None
    last = rows[-1]
    recent = [row["seconds"] for row in rows[-_RECENT:] if "seconds" in row]
    left = None
    if epochs is not None and recent:
        left = sum(recent) / len(recent) * max(0, epochs - len(rows))
    metric = monitor if monitor in last else ""
    phase = visible(str(last.get("phase", "")))[:_LONGEST]
    return Progress(len(rows), epochs, phase, last.get("train.loss"), metric, last.get(metric), left)


def _sweep_progress(run: Path) -> Progress | None:
    try:
        results = sweep_folder.results(run)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not results:
        return None
    best = sweep_folder.ranked(results)[0]
    by = sweep_folder.read_trials(run).by
    metric = by if best.score is not None else ""
    done = sum(trial.is_done for trial in results)
    return Progress(done, len(results), metric=metric, score=best.score, counts_trials=True)


def progress_text(text: str) -> str:
    """`epoch 3/13, loss 0.52, val.accuracy 0.93` of what a store has."""
    if not text:
        return ""
    progress = json.loads(text)
    of = f"/{progress['epochs']}" if progress.get("epochs") else ""
    parts = [f"{'trial' if progress.get('counts_trials') else 'epoch'} {progress['epoch']}{of}"]
    if "loss" in progress:
        parts.append(f"loss {score_text(progress['loss'])}")
    if progress.get("metric") and "score" in progress:
        parts.append(f"{progress['metric']} {score_text(progress['score'])}")
    return ", ".join(parts)
