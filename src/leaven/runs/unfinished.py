"""The model of a run that is not finished, or of one of its checkpoints.

While it is trained, a model has masks, adapters and averages that only the run's program knows how to end. So the
program saves a snapshot, which is loaded; and as a program is code, it is run only for those who trust it.
"""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaven.formats import run_folder, status_line
from leaven.formats.commands import to_finish, to_peek
from leaven.formats.run_in_progress import is_in_progress

if TYPE_CHECKING:
    from leaven.bundle import Bundle


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
    return Unfinished(program.parent) if program is not None else None


def not_up_to_date(place: Path, used: Path) -> str:
    """What to add where a bundle is used that is not the latest model of a run, or of several."""
    program = run_folder.newest(place, run_folder.PROGRAM)
    if program is not None and program.parent != used.parent:
        return f"; {program.parent.name} is newer, but not finished"
    return "" if run_folder.is_finished(used.parent) else ", saved before the run was resumed"


def load_unfinished(found: Unfinished, *, trust_code: bool = False, device: str = "cpu") -> "Bundle":
    """The model, saved by the run's program and loaded. Which epoch it is of is printed as an error would be."""
    from leaven import bundle
    from leaven.runs.running import run_program
    from leaven.runtime.failures import Failure

    folder = found.folder
    if not trust_code:
        trust = f"--trust-code, or trust_code=True in Python, runs the run's {run_folder.PROGRAM} to load it"
        if found.checkpoint:
            raise Failure(f"{folder / found.checkpoint} is a checkpoint, not a bundle", trust)
        save = to_peek(folder) if is_in_progress(folder) else to_finish(folder)
        raise Failure(f"{folder} is not finished", f"`{save}` saves its best epoch so far; {trust}")
    checkpoint = [found.checkpoint] if found.checkpoint else []
    doing = status_line.doing("the run's program loads its data and saves the model…")
    with tempfile.TemporaryDirectory(prefix="leaven-") as temporary, doing:
        file = Path(temporary, run_folder.BUNDLE)
        said = run_program(folder, ["--finish", *checkpoint, "--snapshot", str(file)], is_shown=False)
        model = bundle.load(file, trust_code=True, device=device)
    model.path = folder / (found.checkpoint or run_folder.BEST)
    used = next((line for line in said.splitlines() if line.startswith("using ")), f"using {model.path}")
    with status_line.doing(""):
        print(f"unfinished run: {used}" if not found.checkpoint else f"{used}, of {folder}", file=sys.stderr)
    return model
