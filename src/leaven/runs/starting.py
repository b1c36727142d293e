"""Starting a run or a sweep: its new folder, the flags of its program, and from Python also its end.

`cli` and `leaven.run` start runs by `new_run`; jobs take the same files into a package.
"""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from leaven.cache.store_limit import chosen_limit
from leaven.catalog import lookup
from leaven.catalog.value_text import value_text
from leaven.files.atomic_files import write_text
from leaven.formats import run_folder, sweep_folder
from leaven.language.diagnostics import Diagnostic, Severity
from leaven.language.report import render_concise
from leaven.language.source import Source, flag_of
from leaven.plan.plan import Plan, Sweep
from leaven.plan.plan_json import to_json
from leaven.plan.recorded_plan import changed_argument, recorded_plan
from leaven.plan.values import Plain
from leaven.planning.compiling import compile_source
from leaven.planning.explain import explain
from leaven.program.emit import emit
from leaven.program.names import Names
from leaven.recipe import show
from leaven.recipe.recipe import Recipe
from leaven.runs.processes import raised_as_failure, run_in_process
from leaven.runs.run import Run, run_in
from leaven.runs.sweeping import run_sweep
from leaven.statements.in_python import in_python
from leaven.statements.options import Options
from leaven.terminal.visible import visible

QUICK_TRIALS = 2


class StartError(ValueError):
    """A run can't be started as it is asked for; `help` says what to do."""

    def __init__(self, headline: str, help: str = "") -> None:
        super().__init__(f"{headline}; {help}" if help else headline)
        self.headline = headline
        self.help = help


def start(
    source: Source, options: Options, *, is_quick: bool, name: str | None, from_phase: str | None, of: str | None
) -> Run | tuple[Diagnostic, ...]:
    """The run, when it has ended; the errors of a recipe that has some."""
    chosen_limit()
    compiled = compile_source(source, options, requires_args=True)
    if compiled.recipe is None or compiled.plan is None:
        return compiled.diagnostics
    for report in compiled.diagnostics:
        if report.severity is Severity.WARNING:
            warnings.warn(render_concise(in_python(report)), stacklevel=3)
    folder, flags = new_run(
        source, compiled.recipe, compiled.plan, is_quick=is_quick, name=name, from_phase=from_phase, of=of
    )
    called = _call(source, options, quick=is_quick or None, name=name, from_phase=from_phase, of=of)
    with raised_as_failure():
        if compiled.plan.sweep is not None:
            run_sweep(folder, called)
        else:
            run_in_process(folder, flags, called=called)
    return run_in(folder, trust_code=True)  # its code has been run already


def _call(source: Source, options: Options, **named: object) -> str:
    """The call, with all options as the command line has them."""
    given = [repr(source.name)]
    if options != Options():
        chosen = (f"{key}={value!r}" for key, value in vars(options).items() if value)
        given.append(f"leaven.Options({', '.join(chosen)})")
    given += [f"{key}={value!r}" for key, value in named.items() if value is not None]
    return f"leaven.run({', '.join(given)})"


# -- the folder of a new run


def new_run(
    source: Source,
    recipe: Recipe,
    plan: Plan,
    *,
    is_quick: bool = False,
    name: str | None = None,
    from_phase: str | None = None,
    of: str | None = None,
) -> tuple[Path, list[str]]:
    """The folder of a new run or sweep, with everything known before it runs, and the flags of its program.

    `of` is the earlier run that did the phases before `from_phase`, by default the newest.
    """
    if name is not None and (wrong := run_folder.wrong_name(name)):
        raise StartError(wrong)
    flags = [*_first_phase(plan, from_phase, of), *(["--quick"] if is_quick else [])]
    folder = run_folder.new_folder(output_folder(plan), name, is_quick=is_quick)
    files = run_files(source, recipe, plan)
    for file, text in files.items():
        write_text(folder / file, text)
    program, place = files[run_folder.PROGRAM].encode(), os.path.abspath(source.folder)
    lock = run_folder.first_lock(program, recipe_folder=place, started_in=os.getcwd())
    write_text(folder / run_folder.LOCK, lock)
    if plan.sweep is not None:
        trials = sweep_folder.trials_json(trials_of(plan.sweep, flags, is_quick=is_quick))
        write_text(folder / sweep_folder.TRIALS, trials)
        sweep_folder.make_trial_folders(folder, lock)
    return folder, flags


def output_folder(plan: Plan) -> Path:
    """The folder of a recipe's runs."""
    return Path(str(plan.output.value))


def run_files(source: Source, recipe: Recipe, plan: Plan) -> dict[str, str]:
    """The files of a run folder that are known before the program runs, all but the lock."""
    program = emit(plan)
    return {
        run_folder.RECIPE: source.text,
        run_folder.RESOLVED: show.to_text(recipe),
        run_folder.PLAN: to_json(plan, program),
        run_folder.PLAN_TEXT: explain(plan),
        run_folder.PROGRAM: program,
    }


def trials_of(sweep: Sweep, flags: Sequence[str], *, is_quick: bool) -> sweep_folder.Trials:
    """The trials of a sweep, with the flags of each besides those of all. A smoke test has two."""
    digits = max(2, len(str(len(sweep.trials))))
    trials = [
        sweep_folder.Trial(
            f"trial-{number:0{digits}}",
            ", ".join(f"{name}={value_text(value)}" for name, value in trial.values),
            dict(trial.values),
            ["--train-only", *flags, *(_flag(*value) for value in trial.values)],
        )
        for number, trial in enumerate(sweep.trials[: QUICK_TRIALS if is_quick else None], 1)
    ]
    return sweep_folder.Trials(sweep.by, sweep.lower_is_better, sweep.together and not is_quick, trials)


def _flag(name: str, value: Plain) -> str:
    """A value as the flag of a program."""
    flag = flag_of(name)
    if isinstance(value, bool):
        return flag if value else f"--no-{flag[2:]}"
    return f"{flag}={value}"


# -- a run that begins with a later phase


def _first_phase(plan: Plan, phase: str | None, of: str | None) -> list[str]:
    """The flags by which a program begins with a phase, after an earlier run that did those before."""
    if phase is None:
        if of is not None:
            raise StartError("an earlier run was given, but not the phase to begin with (`--from`)")
        return []
    names, phase = [each.name for each in plan.phases], visible(phase)
    if phase not in names:
        near = lookup.nearest(phase, names)
        help = f"did you mean `{near[0]}`?" if near else f"its phases are {', '.join(names)}"
        raise StartError(f"the recipe has no phase `{phase}`; {help}")
    if phase == names[0]:
        return []
    needed = run_folder.leaving_file(names.index(phase) - 1)
    place = Path(of) if of is not None else output_folder(plan)
    left = run_folder.newest(place, needed)
    if left is None and (problem := run_folder.only_in_smoke_test(place, needed)):
        raise StartError(*problem)
    if left is None:
        raise StartError(f"no run in {place} has finished the phases before `{phase}`")
    changed = _changed_since(left.parent, plan, names.index(phase))
    if changed is not None:
        raise StartError(f"{changed}; run the recipe from the beginning")
    return ["--from", phase, "--of", str(left.parent)]


def _changed_since(run: Path, plan: Plan, count: int) -> str | None:
    """How the recipe differs from a run in what the phases before the one at `count` depend on."""
    then = recorded_plan(run)
    if then is None:
        return f"the plan has changed since {run}"
    if then.model != plan.model:
        return f"the model has changed since {run}"
    for at, phase in enumerate(plan.phases[:count]):
        if then.phases[at : at + 1] != (phase,):
            return f"phase `{phase.name}` has changed since {run}"
    names = Names(plan)
    now = {names.arg(arg.name): arg.default for arg in plan.args}
    return changed_argument(run, plan.phases[count].name, now)
