"""From a plan to a running program: the folder of a new run, and the command that runs its program."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from leaven.formats import run_folder
from leaven.formats.atomic_files import write_text
from leaven.language.source import Source
from leaven.plan.explain import explain
from leaven.plan.plan import Plan
from leaven.plan.plan_json import to_json
from leaven.program.emit import emit
from leaven.recipe import show
from leaven.recipe.recipe import Recipe

_LAUNCH = Path(__file__).with_name("launch.py")


def output_folder(plan: Plan) -> Path:
    """Where the runs of a recipe are."""
    return Path(str(plan.output.value))


def run_files(source: Source, recipe: Recipe, plan: Plan) -> dict[str, str]:
    """The files of a run folder that are known before the program runs, all but the lock."""
    return {
        run_folder.RECIPE: source.text,
        run_folder.RESOLVED: show.to_text(recipe),
        run_folder.PLAN: to_json(plan),
        run_folder.PLAN_TEXT: explain(plan),
        run_folder.PROGRAM: emit(plan),
    }


def new_run(source: Source, recipe: Recipe, plan: Plan, *, is_quick: bool, name: str | None = None) -> Path:
    """A new run folder, with all that is known before the program runs."""
    folder = run_folder.new_folder(output_folder(plan), name, is_quick=is_quick)
    files = run_files(source, recipe, plan)
    for file, text in files.items():
        write_text(folder / file, text)
    program, place = files[run_folder.PROGRAM].encode(), os.path.abspath(source.folder)
    write_text(folder / run_folder.LOCK, run_folder.first_lock(program, recipe_folder=place, started_in=os.getcwd()))
    return folder


def flags_of(begin: Sequence[str], *, is_quick: bool) -> list[str]:
    """The flags of a new run's program: those by which it begins with a later phase, and that of a smoke test."""
    return [*begin, *(["--quick"] if is_quick else [])]


def command(folder: Path, flags: list[str], program: Path | None = None) -> list[str]:
    """What runs a program in a run folder, by default its own, from its last checkpoint if it has one."""
    program = program or folder / run_folder.PROGRAM
    return launched(program, ["--resume", str(folder), *flags])


def launched(file: Path, words: list[str]) -> list[str]:
    """What runs a Python file with some arguments."""
    return [sys.executable, str(_LAUNCH), str(file), *words]
