"""The folder of a sweep: a run folder whose program is run several times, each trial in a run folder of its own.

runs/dogs/2026-11-15_20-21-03/
    recipe.leaven, resolved.leaven, program.py, plan.txt, plan.json, lock.json, as for any run
    trials.json       the trials, and the score that compares them
    trial-01/         a run folder
    trial-02/
    trials.csv        the values and scores of the trials
    model.bundle      the model of the best trial, with its scores.json, metrics.csv and curves.png
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leaven.files.atomic_files import write_text
from leaven.files.regular import read_regular
from leaven.formats.run_folder import LOCK, PLAN, PLAN_TEXT, PROGRAM, RECIPE, RESOLVED, read_json, read_metrics

TRIALS = "trials.json"
TABLE = "trials.csv"
DIVERGED = "diverged"  # what the lock of a trial has whose loss was not a number
_OF_A_TRIAL = (RECIPE, RESOLVED, PLAN, PLAN_TEXT, PROGRAM)
CHOSEN = "chosen"  # what the lock of a run has when its phases are done: the epoch that its model is of


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its folder in that of the sweep, and the values of its `arg`s, also as text and flags."""

    name: str
    text: str
    values: Mapping[str, Any]
    flags: Sequence[str]


@dataclass(frozen=True)
class Trials:
    """The trials of a sweep, and the score that compares them."""

    by: str
    lower_is_better: bool
    together: bool  # whether one process trains them
    trials: Sequence[Trial]


def is_sweep(folder: Path) -> bool:
    return (folder / TRIALS).is_file()


def trials_json(sweep: Trials) -> str:
    return json.dumps(asdict(sweep), indent=1, ensure_ascii=False) + "\n"


def make_trial_folders(folder: Path, lock: str) -> None:
    """Give each trial of a sweep its run folder, with what the sweep's has, and a lock."""
    for trial in read_trials(folder).trials:
        (folder / trial.name).mkdir(exist_ok=True)
        for file in _OF_A_TRIAL:
            shutil.copyfile(folder / file, folder / trial.name / file)
        write_text(folder / trial.name / LOCK, lock)


def read_trials(folder: Path) -> Trials:
    found = json.loads(read_regular(folder / TRIALS))
    return Trials(**{**found, "trials": [Trial(**trial) for trial in found["trials"]]})


@dataclass(frozen=True)
class Result:
    """The best epoch of a trial so far, with its score; None before the first epoch."""

    trial: Trial
    number: int
    score: float | None
    epoch: int | None
    seconds: float
    rank: tuple[float, float] = (0.0, 0.0)  # the higher, the better; the loss decides between equal scores
    is_done: bool = False
    diverged: str = ""


def result_of(folder: Path, number: int, sweep: Trials) -> Result:
    """The result of a trial, counted from 1, of a sweep in a folder."""
    trial = sweep.trials[number - 1]
    lock, rows = read_json(folder / trial.name / LOCK), read_metrics(folder / trial.name)
    seconds = sum(row.get("seconds", 0.0) for row in rows)
    is_done = bool(lock.get("trained"))
    if lock.get(DIVERGED):
        return Result(trial, number, None, None, seconds, is_done=True, diverged=str(lock[DIVERGED]))
    by = sweep.by if rows and sweep.by in rows[-1] else "train.loss"
    sign = -1.0 if sweep.lower_is_better or by == "train.loss" else 1.0

    def rank(row: Mapping[str, Any]) -> tuple[float, float]:
        return sign * row[by], -row.get("val.loss", 0.0)

    last = [row for row in rows if row["phase"] == rows[-1]["phase"] and by in row]
    chosen = lock.get(CHOSEN)
    best = next((row for row in last if row["epoch"] == chosen), None) if chosen else max(last, key=rank, default=None)
    if best is None:
        return Result(trial, number, None, None, seconds, is_done=is_done)
    return Result(trial, number, best[by], best["epoch"], seconds, rank(best), is_done)


def results(folder: Path) -> list[Result]:
    """The results of all trials, in their order."""
    sweep = read_trials(folder)
    return [result_of(folder, number, sweep) for number in range(1, len(sweep.trials) + 1)]


def ranked(found: Sequence[Result]) -> list[Result]:
    """The best first; those without a score last."""
    return sorted(found, key=lambda one: (one.score is not None, one.rank), reverse=True)


def best_trial(folder: Path) -> Path | None:
    """The folder of the best trial so far, if any has ended an epoch."""
    first = ranked(results(folder))[0]
    return folder / first.trial.name if first.score is not None else None
