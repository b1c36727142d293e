"""Running a sweep: its trials, and the best of them, which is finished.

A trial is a run in a folder of its own, by the program of the sweep with other values on its command line. It ends
after training; test scores and a bundle are for the best one alone. What is done is read from the folders, so a sweep
that was interrupted, however that was, goes on with what is left.
"""

import csv
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path

from leaven.catalog.value_text import value_text
from leaven.files.atomic_files import write_text
from leaven.formats import run_folder, sweep_folder
from leaven.formats.run_in_progress import hold
from leaven.formats.sweep_folder import Result
from leaven.runs.processes import ProgramFailed, run_in_process, run_trials
from leaven.terminal.commands import to_resume
from leaven.terminal.score_text import score_text
from leaven.terminal.table import aligned
from leaven.terminal.visible import visible, visible_lines

TOGETHER = Path(__file__).parents[1] / "runtime" / "trials" / "together.py"
_OF_THE_BEST = (run_folder.SCORES, run_folder.METRICS, run_folder.CURVES, run_folder.SAMPLES, run_folder.BUNDLE)


def run_sweep(folder: Path, called: str) -> None:
    """Train what is left of the trials, together or one after the other, then finish the best."""
    owner = _Owner()
    if not hold(folder, owner):
        raise ProgramFailed(f"{folder} is still running")
    try:
        if sweep_folder.read_trials(folder).together and len(left := _left(folder)) > 1:
            # in one process, which also finishes the best, and leaves those that can't share a process
            run_trials(TOGETHER, folder, [one.trial.name for one in left], called)
        _train_each(folder, _left(folder), called)
    except ProgramFailed as failure:
        help = f"{failure.help}\nthen go on with the sweep: {to_resume(folder)}".lstrip("\n")
        raise ProgramFailed(failure.headline, help) from None
    end_sweep(folder, called)


def _left(folder: Path) -> list[Result]:
    return [one for one in sweep_folder.results(folder) if not one.is_done]


def _train_each(folder: Path, left: Sequence[Result], called: str) -> None:
    sweep = sweep_folder.read_trials(folder)
    for one in left:
        trial, number = one.trial, one.number
        print(f"\ntrial {number}/{len(sweep.trials)}: {visible(trial.text)}", flush=True)
        try:
            run_in_process(folder / trial.name, trial.flags, called=called)
        except ProgramFailed as failure:
            if not sweep_folder.result_of(folder, number, sweep).diverged:
                raise
            print(f"diverged: {visible_lines(failure.headline)}", flush=True)


class _Owner:
    """Holds a sweep as long as it runs."""


def end_sweep(folder: Path, called: str) -> None:
    """Compare the trials so far, finish the best, and put its model into the folder of the sweep."""
    found = sweep_folder.results(folder)
    best = sweep_folder.best_trial(folder)
    if best is None:
        told = next((f": {one.diverged}" for one in found if one.diverged), "")
        raise ProgramFailed(
            f"no trial of {folder} has ended an epoch{told}", "try smaller learning rates" if told else ""
        )
    if not run_folder.is_finished(best):
        print(flush=True)
        run_in_process(best, ["--finish"], called=called)
    for file in _OF_THE_BEST:
        with suppress(FileNotFoundError):
            _link(best / file, folder / file)
    of_best, lock = (run_folder.read_json(place / run_folder.LOCK) for place in (best, folder))
    at_edge = edges(found)
    caveats = [*of_best.get("caveats", ()), *at_edge]
    ended = {"best": best.name, "caveats": caveats, "finished": True, "trained": all(one.is_done for one in found)}
    write_text(folder / run_folder.LOCK, json.dumps({**of_best, **lock, **ended}, indent=2) + "\n")
    write_text(folder / sweep_folder.TABLE, csv_table(found, sweep_folder.read_trials(folder).by))
    model = folder / run_folder.BUNDLE
    shown = "\n\n".join([table(found, sweep_folder.read_trials(folder).by), *(["\n".join(at_edge)] if at_edge else [])])
    print(visible_lines(f"\n{shown}\n\nsaved the model of {best.name} as {model}"), flush=True)


def edges(found: Sequence[Result]) -> list[str]:
    """A line for each `arg` whose best value is the smallest or the largest of at least three that were tried."""
    best, *others = sweep_folder.ranked([one for one in found if one.score is not None])
    lines = []
    for name, value in best.trial.values.items():
        tried = sorted({one.trial.values[name] for one in found if _is_number(one.trial.values[name])})
        if len(tried) < 3 or value not in (tried[0], tried[-1]) or value == 0:
            continue
        if any(one.score == best.score and one.trial.values[name] not in (tried[0], tried[-1]) for one in others):
            continue
        (end, more), nearest = (
            (("smallest", "smaller"), tried[1]) if value == tried[0] else (("largest", "larger"), tried[-2])
        )
        next_ = _beyond(value, nearest)
        lines.append(
            f"{name}={value_text(value)} is the best and the {end} value of the sweep: try {more} ones, too"
            f"{f', such as {value_text(next_)}' if next_ is not None else ''}"
        )
    return lines


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _beyond(value: float, nearest: float) -> float | None:
    """The next value after the last two of a list, in the same ratio; None where there is none."""
    if value * nearest <= 0:
        return None
    found = float(f"{value * value / nearest:.2g}")
    whole = isinstance(value, int) and isinstance(nearest, int)
    return found if not whole else round(found) if round(found) not in (0, value) else None


def _link(file: Path, to: Path) -> None:
    """Let a file have a second place: the same bytes, or a copy where the disk has no links."""
    beside = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        os.link(file, beside)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(file, beside)
    beside.replace(to)


def table(found: Sequence[Result], by: str) -> str:
    """The trials with their values and scores, the best first."""
    names = list(found[0].trial.values)
    lines = [["trial", *names, by, "epoch", "time"]]
    for one in sweep_folder.ranked(found):
        values = [value_text(value) for value in one.trial.values.values()]
        diverged = "diverged" if one.diverged else ""
        reached = [diverged, ""] if one.score is None else [score_text(one.score), str(one.epoch)]
        lines.append([str(one.number), *values, *reached, f"{one.seconds:.1f} s"])
    return "\n".join(f"  {line}" for line in aligned(lines, numbers=range(len(lines[0]))))


def csv_table(found: Sequence[Result], by: str) -> str:
    """The trials in their order, as csv."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", *found[0].trial.values, by, "epoch", "seconds", "diverged"])
    for one in found:
        score = "" if one.score is None else f"{one.score:.8g}"
        shown = [one.trial.name, *one.trial.values.values(), score, one.epoch, f"{one.seconds:.3f}", one.diverged]
        writer.writerow(shown)
    return text.getvalue()
