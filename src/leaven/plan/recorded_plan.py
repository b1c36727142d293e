"""The plan of a run, read from its folder, and how arguments have changed since, on which its first phases depend."""

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from leaven.formats.run_folder import LOCK, PLAN, is_edited, program_hash, read_json
from leaven.plan.plan import Plan
from leaven.plan.plan_json import from_json
from leaven.plan.values import ArgValue, parts


def recorded_plan(run: Path) -> Plan | None:
    """The plan in the folder of a run; None where there is none, or none that this version reads."""
    try:
        return from_json((run / PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def plan_of_program(program: Path) -> Plan | None:
    """The plan that a program was written from; None where it was edited, or is not known."""
    if not program.is_file():
        return None
    told = read_json(program.parent / PLAN).get("program")
    is_changed = is_edited(program) if told is None else told != program_hash(program.read_bytes())
    return None if is_changed else recorded_plan(program.parent)


def changed_argument(run: Path, phase: str, now: Mapping[str, Any]) -> str | None:
    """`--lr was 0.01 in runs/dogs/…, and is 0.5 now`, if the model or a phase before this one depends on that `arg`."""
    plan, then = recorded_plan(run), read_json(run / LOCK).get("arguments", {})
    if plan is None:
        return None
    before = tuple(takewhile(lambda one: one.name != phase, plan.phases))
    for part in parts((plan.model, before)):
        if isinstance(part, ArgValue):
            name = part.name
            key = name if name in then else f"{name}_"  # as programs name an `arg` that is a keyword of Python
            if key in then and key in now and then[key] != now[key]:
                return f"--{name.replace('_', '-')} was {then[key]} in {run}, and is {now[key]} now"
    return None
