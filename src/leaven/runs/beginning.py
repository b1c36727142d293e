"""A run that begins with a later phase (`--from`): which earlier run did the phases before, and whether they fit."""

from pathlib import Path

from leaven.catalog import lookup
from leaven.formats import run_folder
from leaven.formats.visible import visible
from leaven.plan.plan import Plan
from leaven.plan.plan_json import from_json
from leaven.program.names import Names
from leaven.runs.starting import output_folder


class BeginningError(ValueError):
    """A run can't begin with a phase; `help` says what to do."""

    def __init__(self, headline: str, help: str = "") -> None:
        super().__init__(f"{headline}; {help}" if help else headline)
        self.headline = headline
        self.help = help


def beginning(plan: Plan, phase: str | None, of: str | None) -> list[str]:
    """The flags by which a program begins with a phase; `of` is the earlier run, by default the newest."""
    if phase is None:
        if of is not None:
            raise BeginningError("an earlier run was given, but not the phase to begin with (`--from`)")
        return []
    names, phase = [each.name for each in plan.phases], visible(phase)
    if phase not in names:
        near = lookup.nearest(phase, names)
        help = f"did you mean `{near[0]}`?" if near else f"its phases are {', '.join(names)}"
        raise BeginningError(f"the recipe has no phase `{phase}`; {help}")
    if phase == names[0]:
        return []
    needed = run_folder.leaving_file(names.index(phase) - 1)
    place = Path(of) if of is not None else output_folder(plan)
    left = run_folder.newest(place, needed)
    if left is None and (told := run_folder.only_in_smoke_test(place, needed)):
        raise BeginningError(*told)
    if left is None:
        raise BeginningError(f"no run in {place} has finished the phases before `{phase}`")
    changed = _changed_since(left.parent, plan, names.index(phase))
    if changed is not None:
        raise BeginningError(f"{changed}; run the recipe from the beginning")
    return ["--from", phase, "--of", str(left.parent)]


def _changed_since(run: Path, plan: Plan, count: int) -> str | None:
    """How the recipe differs from a run in what the phases before the one at `count` depend on."""
    try:
        then = from_json((run / run_folder.PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"the plan has changed since {run}"
    if then.model != plan.model:
        return f"the model has changed since {run}"
    for at, phase in enumerate(plan.phases[:count]):
        if then.phases[at : at + 1] != (phase,):
            return f"phase `{phase.name}` has changed since {run}"
    names = Names(plan)
    now = {names.arg(arg.name): arg.default for arg in plan.args}
    return run_folder.changed_argument(run, plan.phases[count].name, now)
