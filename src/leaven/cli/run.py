"""`leaven plan`, `generate`, `run` and `resume`: from a recipe to a program, and running it."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from leaven.cli import completion
from leaven.cli.exit_codes import CANT_WRITE
from leaven.cli.printing import echo, echo_file, echo_painted, fail
from leaven.cli.recipe_command import RecipeCommand, exit_code, print_reports, source_or_exit
from leaven.files.atomic_files import write_text
from leaven.formats import run_folder, sweep_folder
from leaven.formats.listing import both
from leaven.formats.python_modules import libraries_hidden_in
from leaven.formats.run_in_progress import is_in_progress
from leaven.language.diagnostics import Severity
from leaven.language.source import Source
from leaven.plan.plan import Plan
from leaven.planning.compiling import compile_source
from leaven.planning.costs import expected_costs
from leaven.planning.explain import explain
from leaven.planning.translate import move_together, started_in
from leaven.program.emit import emit
from leaven.recipe.recipe import Recipe
from leaven.rules.inputs import size_of_images
from leaven.runs.processes import INTERRUPTED, ProgramFailed, command
from leaven.runs.starting import StartError, new_run
from leaven.runs.sweeping import end_sweep, run_sweep
from leaven.statements.options import Options
from leaven.terminal import status_line
from leaven.terminal.colors import wants_color
from leaven.terminal.commands import to_finish, to_peek, to_resume
from leaven.terminal.width import width_of


@click.command("plan", cls=RecipeCommand)
def print_plan(recipes: list[str], options: Options) -> None:
    """Print what a recipe does, step by step, and why."""
    _, recipe, plan = compile_recipe(recipes[0], options)
    costs = expected_costs(plan, size_of_images(recipe.data))
    color = wants_color(sys.stdout)
    echo_painted(explain(plan, width_of(sys.stdout), color, costs), nl=False, color=color)


@click.command("generate", cls=RecipeCommand)
@click.option("-o", "--program", type=click.Path(path_type=Path), help="Write it to a file, such as train.py.")
@click.option("--standalone", "is_standalone", is_flag=True, help="Write a program that runs without Leaven.")
def write_program(recipes: list[str], options: Options, program: Path | None, is_standalone: bool) -> None:
    """Print the PyTorch program of a recipe.

    It is the program that `leaven run` runs.
    """
    from leaven.program.standalone import obstacles, standalone

    output = None if str(program) == "-" else program
    file, folder = (output.name, output.parent) if output is not None else ("program.py", Path())
    source = source_or_exit(recipes[0])
    start = folder if move_together(folder, source.folder) else source.folder
    with started_in(start):
        plan = _compiled(source, options)[1]
    if is_standalone and (found := obstacles(plan)):
        fail(f"there can't be a standalone program of this recipe: {found[0]}; the normal program can")
    text = standalone(plan, file) if is_standalone else emit(plan, file)
    if output is None:
        echo_file(text)
        return
    try:
        write_text(output, text)
    except OSError as problem:
        fail(f"can't write {output}: {problem.strerror}", code=CANT_WRITE)
    hidden = libraries_hidden_in(output.parent)
    echo(f"{output}: {_command(output, start, 'python -P' if hidden else 'python')} trains", err=True)
    if hidden:
        echo(
            f"note: without `-P`, Python imports {both(hidden)} from {output.parent}{os.sep}, not the library", err=True
        )


def _command(program: Path, start: Path, python: str) -> str:
    """How a program is started, in the folder that its paths are relative to."""
    if start.resolve() == Path.cwd():
        return f"`{python} {shlex.quote(str(program))}`"
    file = program.name if program.parent == start else str(program.resolve())
    return f"`cd {shlex.quote(str(start))} && {python} {shlex.quote(file)}`"


@click.command("run", cls=RecipeCommand)
@click.option("--quick", "is_quick", is_flag=True, help="Smoke test: two batches through every phase, in seconds.")
@click.option("--name", help="The name of the run's folder. [the time]")
@click.option("--from", "from_phase", metavar="PHASE", help="Start at this phase, with the weights of an earlier run.")
@click.option("--of", metavar="RUN", help="With --from: that earlier run. [the newest]")
def start_run(
    recipes: list[str], options: Options, is_quick: bool, name: str | None, from_phase: str | None, of: str | None
) -> NoReturn:
    """Check a recipe, compile it, and train."""
    source, recipe, plan = compile_recipe(recipes[0], options, requires_args=True)
    try:
        folder, flags = new_run(source, recipe, plan, is_quick=is_quick, name=name, from_phase=from_phase, of=of)
    except StartError as problem:
        fail(problem.headline, problem.help)
    except OSError as problem:
        there = problem.filename
        if name is not None and isinstance(problem, FileExistsError) and os.path.isdir(there):
            fail(f"{there} exists already; choose another name, or resume it: {to_resume(there)}")
        fail(f"can't write to {plan.output.text}: {problem.strerror}", code=CANT_WRITE)
    if plan.sweep is not None:
        echo(f"sweep {folder}")
        _sweep(folder, run_sweep)
    _become(folder, flags)


def compile_recipe(word: str, options: Options, *, requires_args: bool = False) -> tuple[Source, Recipe, Plan]:
    """A recipe, as text and resolved, and its plan; where there are errors they are printed and the command ends."""
    source = source_or_exit(word)
    return source, *_compiled(source, options, requires_args=requires_args)


def _compiled(source: Source, options: Options, *, requires_args: bool = False) -> tuple[Recipe, Plan]:
    with status_line.doing(f"checking {source.name}…"):
        compiled = compile_source(source, options, requires_args=requires_args)
    print_reports([d for d in compiled.diagnostics if d.severity is not Severity.NOTE], err=True)
    if compiled.recipe is None or compiled.plan is None:
        sys.exit(exit_code(compiled.diagnostics))
    return compiled.recipe, compiled.plan


@click.command("resume")
@click.argument(
    "folder",
    metavar="RUN",
    type=click.Path(path_type=Path, file_okay=False),
    shell_complete=completion.unfinished_runs,
)
@click.option("--epochs", metavar="+N", help="Train a finished run for N more epochs.")
@click.option("--devices", type=click.IntRange(min=1), metavar="N", help="Train on another number of devices.")
def resume_run(folder: Path, epochs: str | None, devices: int | None) -> NoReturn:
    """Resume an interrupted run, or train a finished one further.

    RUN is the folder of a run; of a folder of runs, the newest is used.
    """
    folder = _run_meant(folder)
    _refuse_in_progress(folder)
    more = _more_epochs(epochs)
    lock = run_folder.read_json(folder / run_folder.LOCK)
    was_quick = run_folder.was_quick(lock)
    is_sweep = sweep_folder.is_sweep(folder)
    if more and is_sweep:
        trial = sweep_folder.best_trial(folder) or folder / "trial-01"
        fail(f"{folder} is a sweep; one of its trials can be trained further: {to_resume(trial)} --epochs +{more}")
    if more and was_quick:
        fail(f"{folder} was a smoke test; it can't be trained further")
    if not more and run_folder.is_finished(folder) and run_folder.is_trained(folder):
        how = "" if was_quick or is_sweep else f"; `{to_resume(folder)} --epochs +10` trains it further"
        echo(f"{folder} is finished{how}")
        sys.exit(0)
    if is_sweep and devices:
        fail(f"{folder} is a sweep; its trials train on the devices that the recipe names")
    if is_sweep:
        _sweep(_return_to_start(folder), run_sweep)
    further = ["--more-epochs", str(more)] if more else []
    _become(_return_to_start(folder), [*further, *(["--devices", str(devices)] if devices else [])])


@click.command("finish")
@click.argument("place", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completion.unfinished_runs)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write only this bundle; the run may go on.")
def finish_run(place: Path, output: Path | None) -> NoReturn:
    """Save the model of a run that was stopped.

    RUN is the folder of a run; of a folder of runs, the newest is used. Its best epoch so far is measured on the test
    split and saved as model.bundle. `leaven resume` can still train the rest.

    With --output, only that file is written, without test scores: so the model of a run that is still going can be
    tried. A checkpoint in the folder of a run, such as last.ckpt or phase1.ckpt, means its weights.
    """
    is_checkpoint = place.suffix == ".ckpt" and place.is_file()
    folder = _run_meant(place.parent if is_checkpoint else place)
    checkpoint = [place.name] if is_checkpoint else []
    is_sweep = sweep_folder.is_sweep(folder)
    if output is not None:
        folder = (sweep_folder.best_trial(folder) or folder) if is_sweep else folder
        file = output.absolute()  # before the current folder becomes another one
        _become(_return_to_start(folder), ["--finish", *checkpoint, "--snapshot", str(file)])
    _refuse_in_progress(folder)
    if not is_checkpoint and run_folder.is_finished(folder):
        further = to_resume(folder)
        rest = "" if run_folder.is_trained(folder) else f" early; `{further}` trains the rest of it"
        echo(f"{folder} is finished{rest}")
        sys.exit(0)
    if is_sweep:
        _sweep(_return_to_start(folder), end_sweep)
    _become(_return_to_start(folder), ["--finish", *checkpoint])


def _sweep(folder: Path, run: Callable[[Path, str], None]) -> NoReturn:
    """Run a sweep, or end it, in processes of its trials. Ctrl-C, and a cluster's SIGTERM, let the trial save."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(folder, _typed())
    except KeyboardInterrupt:
        use = "\nto use its best trial so far: " + to_finish(folder) if sweep_folder.best_trial(folder) else ""
        echo(f"to resume: {to_resume(folder)}{use}", err=True)
        sys.exit(INTERRUPTED)
    except ProgramFailed as failure:
        fail(failure.headline, failure.help, code=1)
    sys.exit(0)


def _refuse_in_progress(folder: Path) -> None:
    if is_in_progress(folder):
        fail(f"{folder} is still running", f"to save its best epoch so far: {to_peek(folder)}")


def _return_to_start(folder: Path) -> Path:
    """Change to the folder where a run was started, from which the paths in its program start; the run seen from it."""
    place = folder.resolve()
    os.chdir(run_folder.started_in(folder))
    return place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place


def _run_meant(folder: Path) -> Path:
    """The folder of a run, given by itself or by that of several runs."""
    program = run_folder.newest(folder, run_folder.PROGRAM)
    if program is None:
        fail(*run_folder.not_a_run(folder))
    return program.parent


def _more_epochs(epochs: str | None) -> int:
    if epochs is None:
        return 0
    if not epochs.startswith("+") or not epochs[1:].isdecimal() or int(epochs[1:]) < 1:
        raise click.UsageError(f"`--epochs {epochs}` must be a number of further epochs: `--epochs +10`")
    return int(epochs[1:])


def _become(folder: Path, flags: list[str]) -> NoReturn:
    """Run a folder's program in place of this process, so that Ctrl-C and exit codes are its own."""
    words = command(folder, flags)
    os.environ[run_folder.COMMAND] = _typed()
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(sys.executable, words)
    sys.exit(subprocess.call(words))


def _typed() -> str:
    """The command as it was typed."""
    return shlex.join(["leaven", *sys.argv[1:]])
