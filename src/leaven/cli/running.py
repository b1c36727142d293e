"""`leaven plan`, `generate`, `run` and `resume`: from a recipe to a program, and the program to work."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click

from leaven.cli.compiling import Compiled, compile_or_exit
from leaven.cli.recipes import MISTAKE_IN_COMMAND
from leaven.formats import run_folder
from leaven.plan.explain import explain
from leaven.program.emit import emit
from leaven.program.standalone import standalone
from leaven.recipe import show
from leaven.recipe.options import Options

CANNOT_WRITE = 74


def print_plan(word: str, options: Options) -> None:
    click.echo(explain(compile_or_exit(word, options).plan), nl=False)


def generate(word: str, options: Options, output: Path | None, *, is_standalone: bool) -> None:
    """Print the program, or write it to a file."""
    compiled = compile_or_exit(word, options)
    text = standalone(emit(compiled.plan)) if is_standalone else emit(compiled.plan)
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
        return
    try:
        run_folder.write_text(output, text)
    except OSError as problem:
        _fail(f"can't write {output}: {problem.strerror}", CANNOT_WRITE)
    click.echo(f"{output}: `python {output}` trains", err=True)


def run(word: str, options: Options, *, is_quick: bool) -> NoReturn:
    """Write the program into a new run folder, and become it."""
    compiled = compile_or_exit(word, options, requires_args=True)
    try:
        folder = _new_run(compiled)
    except OSError as problem:
        _fail(f"can't write to {compiled.plan.recipe.output.text}: {problem.strerror}", CANNOT_WRITE)
    _become(folder, ["--quick"] if is_quick else [])


def _new_run(compiled: Compiled) -> Path:
    recipe = compiled.plan.recipe
    folder = run_folder.new_folder(Path(os.path.relpath(recipe.output.place)))
    for name, text in (
        (run_folder.RECIPE, compiled.source.text),
        (run_folder.RESOLVED, show.to_text(recipe)),
        (run_folder.PLAN, explain(compiled.plan)),
        (run_folder.PROGRAM, emit(compiled.plan)),
    ):
        run_folder.write_text(folder / name, text)
    return folder


def resume(folder: Path, epochs: str | None) -> NoReturn:
    """Go on with a run: from its last checkpoint, or for some epochs more."""
    if not (folder / run_folder.PROGRAM).is_file():
        what = "there is no such folder" if not folder.exists() else "there is no program.py in it"
        _fail(f"{folder} is no run: {what}", MISTAKE_IN_COMMAND)
    more = _more_epochs(epochs)
    if not more and (folder / run_folder.BUNDLE).is_file():
        click.echo(f"{folder} is finished; `leaven resume {folder} --epochs +10` trains it further")
        sys.exit(0)
    started_in = run_folder.read_json(folder / run_folder.LOCK).get("started_in")
    place = folder.resolve()
    if isinstance(started_in, str) and Path(started_in).is_dir():
        os.chdir(started_in)
    _become(place, ["--more-epochs", str(more)] if more else [])


def _more_epochs(epochs: str | None) -> int:
    if epochs is None:
        return 0
    if not epochs.startswith("+") or not epochs[1:].isdecimal() or int(epochs[1:]) < 1:
        raise click.UsageError(f"`--epochs {epochs}` must say how many more: `--epochs +10`")
    return int(epochs[1:])


def _become(folder: Path, flags: list[str]) -> NoReturn:
    """Run a folder's program in place of this process, so that Ctrl-C and exit codes are its own."""
    command = [sys.executable, str(folder / run_folder.PROGRAM), "--resume", str(folder), *flags]
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(sys.executable, command)
    sys.exit(subprocess.call(command))


def _fail(what: str, code: int) -> NoReturn:
    click.echo(f"error: {what}", err=True)
    sys.exit(code)
