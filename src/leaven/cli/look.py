"""`leaven look`: what a recipe trains on, as a picture."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from leaven.cli.exit_codes import CANT_WRITE
from leaven.cli.printing import echo, fail
from leaven.cli.recipe_command import RecipeCommand
from leaven.cli.run import compile_recipe
from leaven.pictures.batch import draw_batch
from leaven.pictures.figure import CantDraw, check_installed, format_of
from leaven.statements.options import Options

if TYPE_CHECKING:
    from leaven.lab.look import SplitName
    from leaven.plan.plan import Plan

_PATH = click.Path(path_type=Path)


@click.command("look", cls=RecipeCommand)
@click.option("-o", "--picture", "file", type=_PATH, help="Where to draw it. [beside the recipe: dogs_look.png]")
@click.option("--split", type=click.Choice(["train", "val", "test"]), default="train", help="Which split. [train]")
@click.option("--epoch", type=click.IntRange(min=1), default=1, help="Of which epoch the first batch is drawn. [1]")
def draw_look(recipes: list[str], options: Options, file: Path | None, split: "SplitName", epoch: int) -> None:
    """Draw what a recipe trains on.

    The picture has a sample after each of its transforms, and the first batch with its labels, as a run trains on it.
    Needs matplotlib: pip install matplotlib. Of texts, the tokens of the first batch are printed.
    """
    word = recipes[0]
    plan = compile_recipe(word, options, requires_args=True)[2]
    if plan.data.eval.is_tokenizing and file is None:
        lines = _seen(plan, split, epoch)
        echo("\n".join(lines or ()))
        sys.exit(0 if lines is not None else 1)
    recipe = Path("recipe" if word == "-" else word)
    file = file or recipe.with_name(f"{recipe.stem}_look.png")
    try:
        format_of(file)
        check_installed("`leaven look`")
    except CantDraw as problem:
        fail(str(problem))
    if plan.data.eval.is_tokenizing:
        fail("texts are printed, not drawn; leave out -o")
    sections = _seen(plan, split, epoch)
    if sections is None:
        sys.exit(1)
    try:
        draw_batch(sections, file)
    except OSError as problem:
        fail(f"can't write {file}: {problem.strerror}", code=CANT_WRITE)
    echo(file)


def _seen(plan: "Plan", split: "SplitName", epoch: int) -> Any:
    """The lines or pictures of the data of a program; None where it fails, which is reported as by the program."""
    from leaven.lab.look import look, look_at_texts
    from leaven.lab.program import Program, seed_of
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
            is_of_texts = plan.data.eval.is_tokenizing
            return look_at_texts(data, split, epoch) if is_of_texts else look(plan, data, split, epoch)
        except Exception as problem:
            if os.environ.get("LEAVEN_DEBUG"):
                raise
            failure = problem if isinstance(problem, Failure) else unexpected(problem)
            echo(report(failure, problem.__traceback__, file), err=True)
            return None
        finally:
            if data is not None:
                data.close()
