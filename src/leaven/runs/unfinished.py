"""The model of a run that is not finished, or of one of its checkpoints.

While it is trained, a model has masks, adapters and averages that only a program knows how to end. So a program saves
a snapshot, which is loaded: the one that the run's recipe compiles to. Where the recipe uses Python files, or the run's
program was edited, it takes that program, which is code, and is run only for those who trust it.
"""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaven.formats import run_folder, sweep_folder
from leaven.formats.run_in_progress import is_in_progress
from leaven.language.recorded_recipe import recorded_recipe
from leaven.planning.compiling import compile_source
from leaven.program.files import write_program
from leaven.runs.processes import raised_as_failure, run_in_process
from leaven.terminal import status_line
from leaven.terminal.commands import to_finish, to_peek
from leaven.terminal.visible import visible

if TYPE_CHECKING:
    from leaven.bundle import Bundle
    from leaven.runtime.failures import Failure


@dataclass(frozen=True)
class Unfinished:
    """A run, and a checkpoint in its folder; none means the best epoch so far."""

    folder: Path
    checkpoint: str = ""


def find_unfinished(file: str | os.PathLike[str]) -> Unfinished | None:
    """What is meant by a path that is neither a bundle nor a run with one; the newest of several runs."""
    path = Path(os.fspath(file))
    if path.suffix == ".ckpt" and path.is_file() and (path.parent / run_folder.PROGRAM).is_file():
        return Unfinished(path.parent, path.name)
    if not path.is_dir() or run_folder.newest(path, run_folder.BUNDLE) is not None:
        return None
    program = run_folder.newest(path, run_folder.PROGRAM)
    if program is None:
        return None
    best = sweep_folder.best_trial(program.parent) if sweep_folder.is_sweep(program.parent) else None
    return Unfinished(best or program.parent)


def not_up_to_date(place: Path, used: Path) -> str:
    """What to add where a bundle is used that is not the latest model of a run, or of several."""
    program = run_folder.newest(place, run_folder.PROGRAM)
    if program is not None and program.parent != used.parent:
        return f"; {program.parent.name} is newer, but not finished"
    return "" if run_folder.is_finished(used.parent) else ", saved before the run was resumed"


def load_unfinished(found: Unfinished, *, trust_code: bool = False, device: str = "cpu") -> "Bundle":
    """The model, saved by a program and loaded. Which epoch it is of is printed to standard error."""
    from leaven import bundle

    folder = found.folder
    with tempfile.TemporaryDirectory(prefix="leaven-") as temporary:
        place = Path(temporary)
        program = None if trust_code else _compiled(folder, place)
        if program is None and not trust_code:
            raise _needs_trust(found)
        with status_line.doing("a program loads the data of the run and saves the model…"):
            flags = ["--finish", *([found.checkpoint] if found.checkpoint else []), "--snapshot"]
            flags += [str(place / run_folder.BUNDLE)]
            with raised_as_failure():
                said = run_in_process(folder, flags, is_shown=False, program=program)
            # what code there is in it was trusted, or compiled here
            model = bundle.load(place / run_folder.BUNDLE, trust_code=True, device=device)
    model.path = folder / (found.checkpoint or run_folder.BEST)
    used = next((line for line in said.splitlines() if line.startswith("using ")), f"using {model.path}")
    with status_line.doing(""):
        told = f"unfinished run: {used}" if not found.checkpoint else f"{used}, of {folder}"
        print(visible(told), file=sys.stderr)
    return model


def _compiled(run: Path, place: Path) -> Path | None:
    """The program that a run's recipe compiles to, written to a folder; None where that is not the run's program."""
    recipe = recorded_recipe(run)
    if recipe is None or run_folder.is_edited(run / run_folder.PROGRAM):
        return None
    plan = compile_source(recipe).plan
    return write_program(plan, place) if plan is not None else None


def _needs_trust(found: Unfinished) -> "Failure":
    from leaven.runtime.failures import Failure

    trust = f"--trust-code, or trust_code=True in Python, runs the run's {run_folder.PROGRAM} to load it"
    if found.checkpoint:
        return Failure(f"{found.folder / found.checkpoint} is a checkpoint, which needs the program of its run", trust)
    save = to_peek(found.folder) if is_in_progress(found.folder) else to_finish(found.folder)
    return Failure(f"{found.folder} is not finished", f"`{save}` saves its best epoch so far; {trust}")
