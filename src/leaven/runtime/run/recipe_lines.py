"""Which line of the recipe a failure belongs to, by the plan in the run's folder."""

import re
import traceback
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from leaven.plan.plan import Plan
from leaven.plan.recorded_plan import recorded_plan
from leaven.plan.values import Argument, Because, Call, children, parts
from leaven.runtime.run.phase import Phase

_PARTS = {"build_data": "data", "build_model": "model", "build_metrics": "metrics", "build_run": "run"}
FIELDS = ("data.source", "data.train", "data.eval", "optimizer")  # that failures are about
_STEPS = {  # runtime functions that a plan does not name, and the fields that they carry out
    "load_weights": "because_weights",
    "packaged_weights": "because_weights",
    "freeze": "freeze",
    "unfreeze_by_epoch": "unfreeze_later",
    "reinit": "preparations",
    "HeadSolver": "solver",
}


def recipe_place(program: Path, trace: TracebackType | None, about: str) -> str | None:
    """`dogs.leaven:5`; None where there is no plan, or it does not say.

    `about` names a field of the plan (`data.source`), an argument, or what is called. Without it, the functions that
    were running are looked for, from the innermost.
    """
    plan = recorded_plan(program.parent)
    if plan is None:
        return None
    try:
        part = _running_part(plan, program, trace)
        places = [part, plan] if part is not None else [plan]
        names = [about] if about else list(_running(trace, program))
        found = (_field(place, name) or _called(place, name) for place in places for name in names)
        line = next((line for each in found if (line := _line(each)) is not None), None)
        line = _line(part) if line is None else line
    except (TypeError, AttributeError):  # somebody changed the plan
        return None
    return None if line is None else f"{plan.name}.leaven:{line}"


def program_place(program: Path, trace: TracebackType | None, about: str) -> str | None:
    """`train.py:57`, the function that a failure is about, or the innermost line of the program that was running."""
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if Path(frame.filename) == program]
    if about.startswith("build_") and program.is_file():
        text = program.read_text(encoding="utf-8").splitlines()
        lines += [at for at, line in enumerate(text, 1) if re.match(rf"def {about}\b", line)]
    return f"{program.name}:{lines[-1]}" if lines else None


def _running_part(plan: Plan, program: Path, trace: TracebackType | None) -> Any:
    """The part of the plan that was being carried out: a phase, the data, the model."""
    frames = [frame for frame, _ in traceback.walk_tb(trace)]
    phases = [found for frame in frames if isinstance(found := frame.f_locals.get("phase"), Phase)]
    if phases:
        return next((phase for phase in plan.phases if phase.name == phases[0].name), None)
    functions = [frame.f_code.co_name for frame in frames if Path(frame.f_code.co_filename) == program]
    return next((getattr(plan, _PARTS[name]) for name in functions if name in _PARTS), None)


def _running(trace: TracebackType | None, program: Path) -> Iterator[str]:
    """The names of the functions and classes that the program had called, from the innermost."""
    for frame, _ in reversed(list(traceback.walk_tb(trace))):
        if Path(frame.f_code.co_filename) == program:
            return
        yield frame.f_code.co_name
        if "self" in frame.f_locals:
            yield type(frame.f_locals["self"]).__name__


def _field(part: Any, name: str) -> Any:
    """A field of a part of the plan, by its path; or the one that a function of the program or the runtime carries
    out. None where that part has no such field."""
    path = _STEPS.get(name) or _PARTS.get(name, name)
    if path == name and name not in FIELDS:
        return None
    try:
        return attrgetter(path)(part)
    except AttributeError:
        return None


def _called(part: Any, name: str) -> Any:
    """The call of something, or the argument, of that name."""
    return next((each for each in parts(part) if isinstance(each, Argument | Call) and each.name == name), None)


def _line(part: Any) -> int | None:
    """The first line of the recipe that a part of the plan gives as its reason."""
    if isinstance(part, Because):
        return part.line
    inner = (part.because, *children(part)) if hasattr(part, "because") else children(part)
    return next((line for each in inner if (line := _line(each)) is not None), None)
