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
from leaven.plan.plan_json import to_json
from leaven.program.emit import emit
from leaven.recipe import show
from leaven.recipe.recipe import Recipe

_LAUNCH = Path(__file__).with_name("launch.py")


def output_folder(plan: Plan) -> Path:
    """Where the runs of a recipe are."""
    return Path(str(plan.output.value))


def new_run(source: Source, recipe: Recipe, plan: Plan, *, is_quick: bool, name: str | None = None) -> Path:
    """A new run folder, with all that is known before the program runs."""
    folder = run_folder.new_folder(output_folder(plan), name, is_quick=is_quick)
    program = emit(plan)
    lock = {
        "program": run_folder.program_hash(program.encode()),
        "started": run_folder.now(),
        "recipe_folder": os.path.abspath(source.folder),
    }
    for name, text in (
        (run_folder.RECIPE, source.text),
        (run_folder.RESOLVED, show.to_text(recipe)),
        (run_folder.PLAN, to_json(plan)),
        (run_folder.PLAN_TEXT, explain(plan)),
        (run_folder.PROGRAM, program),
        (run_folder.LOCK, json.dumps(lock, indent=2) + "\n"),
    ):
        write_text(folder / name, text)
    return folder


def started_in(folder: Path) -> Path:
    """The folder where a run was started, from which the paths in its program start; else the current one."""
    found = run_folder.read_json(folder / run_folder.LOCK).get("started_in")
    return Path(found) if isinstance(found, str) and Path(found).is_dir() else Path.cwd()


def command(folder: Path, flags: list[str], program: Path | None = None) -> list[str]:
    """What runs a program in a run folder, by default its own, from its last checkpoint if it has one."""
    program = program or folder / run_folder.PROGRAM
    return [sys.executable, str(_LAUNCH), str(program), "--resume", str(folder), *flags]
