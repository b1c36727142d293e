"""`leaven look`: what a recipe trains on, as a picture or as text."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from leaven.cli.exit_codes import CANT_WRITE
from leaven.cli.printing import echo, echo_json, fail
from leaven.cli.recipe_command import RecipeCommand
from leaven.cli.run import compile_recipe
from leaven.pictures.figure import CantDraw, check_installed, format_of
from leaven.statements.options import Options

if TYPE_CHECKING:
    from leaven.lab.tracing.opened import Opened, SplitName
    from leaven.plan.plan import Plan

_PATH = click.Path(path_type=Path)


@click.command("look", cls=RecipeCommand)
@click.option("-o", "--picture", "file", type=_PATH, help="Where to draw it. [beside the recipe: dogs_look.png]")
@click.option("--split", type=click.Choice(["train", "val", "test"]), default="train", help="Which split. [train]")
@click.option("--epoch", type=click.IntRange(min=1), default=1, help="Of which epoch the first batch is drawn. [1]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; a picture is drawn only with --picture.")
def draw_look(
    recipes: list[str], options: Options, file: Path | None, split: "SplitName", epoch: int, as_json: bool
) -> None:
    """Draw what a recipe trains on.

    The picture has a sample after each of its transforms, and the first batch with its labels, as a run trains on it.
    Needs matplotlib: pip install matplotlib. Of texts, the tokens of the first batch are printed. What is wrong with
    the data as the transforms make it is printed as warnings.
    """
    word = recipes[0]
    plan = compile_recipe(word, options, requires_args=True)[2]
    recipe = Path("recipe" if word == "-" else word)
    if plan.data.eval.is_tokenizing:
        if file is not None:
            fail("texts are printed, not drawn; leave out -o")
    elif not as_json or file is not None:
        file = file or recipe.with_name(f"{recipe.stem}_look.png")
        check_drawing(file, "`leaven look`")

    def look_at(opened: "Opened") -> Any:
        from leaven.lab.look import look

        return look(opened, split, epoch)

    found = asked_of_data(plan, look_at)
    if as_json:
        echo_json(found.to_json())
    if file is None:
        echo(found, err=as_json) if not as_json else None
        return
    from leaven.pictures.batch import draw_batch

    draw(lambda: draw_batch(found.rows, file), file)
    if not as_json:
        echo(file)
        show_warnings(found.warnings)


def check_drawing(file: Path, what: str) -> None:
    """End the command where a picture can't be drawn to that file."""
    try:
        format_of(file)
        check_installed(what)
    except CantDraw as problem:
        fail(str(problem))


def draw(write: Callable[[], object], file: Path) -> None:
    try:
        write()
    except OSError as problem:
        fail(f"can't write {file}: {problem.strerror}", code=CANT_WRITE)


def show_warnings(warnings: Any) -> None:
    """Print what is wrong with the data."""
    for one in warnings:
        echo(f"warning: {one}", err=True)


def asked_of_data(plan: "Plan", ask: Callable[["Opened"], Any]) -> Any:
    """The answer to a question about the data of a program; where it fails, that is reported as by the program."""
    from leaven.lab.program import Program, seed_of
    from leaven.lab.tracing.opened import Opened
    from leaven.program.files import write_program
    from leaven.runtime.failures import Failure, show_cautions, unexpected
    from leaven.runtime.run.guard import report

    show_cautions()
    with TemporaryDirectory(prefix="leaven-") as place:
        file = write_program(plan, Path(place).resolve())
        data = None
        try:
            program = Program(file.parent)
            data = program.build_data(seed_of(plan, program.args))
            return ask(Opened(plan.name, plan, program, data))
        except Exception as problem:
            if os.environ.get("LEAVEN_DEBUG"):
                raise
            failure = problem if isinstance(problem, Failure) else unexpected(problem)
            echo(report(failure, problem.__traceback__, file), err=True)
            sys.exit(1)
        finally:
            if data is not None:
                data.close()
