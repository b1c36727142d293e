"""Trains trials of a sweep in one process, and finishes the best of all. This file is run, not imported:

python launch.py together.py SWEEP trial-01 trial-02 …
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

from leaven.formats import sweep_folder
from leaven.formats.python_modules import load_module
from leaven.formats.run_folder import COMMAND, PROGRAM, is_finished
from leaven.formats.sweep_folder import Trial as TrialRecord
from leaven.runtime.failures import Diverged, Stopped, Trained
from leaven.runtime.model.outside import UserVariables, bytes_outside
from leaven.runtime.run import progress
from leaven.runtime.run.guard import guard
from leaven.runtime.run.stopping import StopSignal
from leaven.runtime.trials.fused import Fusing
from leaven.runtime.trials.group import Group
from leaven.runtime.trials.shared import share_building
from leaven.terminal import status_line
from leaven.terminal.byte_sizes import show_bytes

MOST = 32  # trials that train together
MOST_BYTES = 4 * 1024**2  # of variables that are looked at with each turn


def main(folder: Path, names: Sequence[str], called: str) -> None:
    """Train the trials, so many at a time, and finish the best of the whole sweep."""
    sweep = sweep_folder.read_trials(folder)
    left = [trial for trial in sweep.trials if trial.name in names]
    program = _imported(folder / PROGRAM)
    if reason := _kept_apart():
        progress.say(f"each trial trains in a process of its own, because {reason}")
        return
    share_building(program)
    for start in range(0, len(left), MOST):
        _train(folder, left[start : start + MOST], program, called)
        gc.collect()  # the runs hold their folders
    best = sweep_folder.best_trial(folder)
    if best is not None and not is_finished(best):
        progress.say("")
        _run(program, best, ["--finish"], called)


def _kept_apart() -> str:
    """Why trials can't exchange the variables of the user's files; empty where they can."""
    if name := UserVariables().not_copied:
        return f"{name} may change, and can't be copied"
    size = bytes_outside()
    return f"the variables of imported files take {show_bytes(size)}" if size > MOST_BYTES else ""


def _train(folder: Path, trials: Sequence[TrialRecord], program: ModuleType, called: str) -> None:
    progress.say(f"{len(trials)} trials train together")
    group = Group(Fusing().serve, StopSignal())
    bodies = {one.text: _body(program, folder / one.name, one.flags, called, group.stop) for one in trials}
    threads = torch.get_num_threads()
    group.run(bodies)
    torch.set_num_threads(threads)
    for one, trial in zip(trials, group.trials, strict=True):
        if isinstance(trial.problem, Diverged):
            progress.say(f"{one.name} ({one.text}) diverged: {trial.problem.headline}")
    problems = [trial.problem for trial in group.trials if trial.problem is not None]
    for problem in sorted(problems, key=lambda each: isinstance(each, Stopped)):
        if not isinstance(problem, Diverged):
            raise problem


def _body(program: ModuleType, folder: Path, flags: Sequence[str], called: str, stop: StopSignal) -> Callable[[], None]:
    def run() -> None:
        try:
            _run(program, folder, flags, called)
        except (Trained, Diverged, Stopped):
            raise
        except BaseException:
            stop.is_pressed_here = True  # the others save and stop
            raise

    return run


def _run(program: ModuleType, folder: Path, flags: Sequence[str], called: str) -> None:
    """Run the program of a trial."""
    sys.argv = [str(folder / PROGRAM), "--resume", str(folder), "--devices", "1", *flags]
    os.environ[COMMAND] = called
    program.main()


def _imported(file: Path) -> ModuleType:
    sys.path[0] = str(file.parent)
    with status_line.doing("importing PyTorch…"):
        return load_module(file, "program")


if __name__ == "__main__":
    guard(partial(main, Path(sys.argv[1]), sys.argv[2:], os.environ.get(COMMAND, "")))
