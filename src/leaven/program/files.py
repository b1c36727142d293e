"""The program of a plan as a file."""

from pathlib import Path

from leaven.files.atomic_files import write_text
from leaven.formats.run_folder import PLAN, PROGRAM
from leaven.plan.plan import Plan
from leaven.plan.plan_json import to_json
from leaven.program.emit import emit


def write_program(plan: Plan, folder: Path) -> Path:
    """The program in a folder, beside its plan, by which a failure finds its line of the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    program = emit(plan)
    write_text(folder / PLAN, to_json(plan, program))
    write_text(folder / PROGRAM, program)
    return folder / PROGRAM
