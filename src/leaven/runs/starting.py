"""From a plan to a running program: the folder of a new run, and the command that runs its program."""

import json
import os
import sys
from pathlib import Path

from leaven.formats import run_folder
from leaven.formats.atomic_files import write_text
from leaven.language.source import Source
from leaven.plan.explain import explain
from leaven.plan.plan import Plan
from leaven.program.files import write_program
from leaven.recipe import show
from leaven.recipe.recipe import Recipe

_LAUNCH = Path(__file__).with_name("launch.py")


def output_folder(plan: Plan) -> Path:
    """Where the runs of a recipe are."""
    return Path(str(plan.output.value))


def new_run(source: Source, recipe: Recipe, plan: Plan, *, is_quick: bool, name: str | None = None) -> Path:
    """A new run folder, with all that is known before the program runs."""
    folder = run_folder.new_folder(output_folder(plan), name, is_quick=is_quick)
    program = write_program(plan, folder)
    lock = {
        "program": run_folder.program_hash(program.read_bytes()),
        "started": run_folder.now(),
        "recipe_folder": os.path.abspath(source.folder),
        "started_in": os.getcwd(),
    }
    for file, text in (
        (run_folder.RECIPE, source.text),
        (run_folder.RESOLVED, show.to_text(recipe)),
        (run_folder.PLAN_TEXT, explain(plan)),
        (run_folder.LOCK, json.dumps(lock, indent=2) + "\n"),
    ):
        write_text(folder / file, text)
    return folder


def command(folder: Path, flags: list[str], program: Path | None = None) -> list[str]:
    """What runs a program in a run folder, by default its own, from its last checkpoint if it has one."""
    program = program or folder / run_folder.PROGRAM
    return launched(program, ["--resume", str(folder), *flags])


def launched(file: Path, words: list[str]) -> list[str]:
    """What runs a Python file with some arguments."""
    return [sys.executable, str(_LAUNCH), str(file), *words]
