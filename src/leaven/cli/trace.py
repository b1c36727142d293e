"""`leaven trace`: the way of one sample through its transforms into its batch."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leaven.cli.bundle import reports_failures
from leaven.cli.look import asked_of_data, check_drawing, draw
from leaven.cli.printing import echo, echo_json
from leaven.cli.recipe_command import RecipeCommand, is_recipe
from leaven.cli.run import compile_recipe
from leaven.statements.options import Options
from leaven.terminal import status_line

if TYPE_CHECKING:
    from leaven.lab.tracing.opened import Opened
    from leaven.lab.tracing.trace import Trace
    from leaven.plan.plan import Plan

_PATH = click.Path(path_type=Path)


@click.command("trace", cls=RecipeCommand)
@click.option("--sample", metavar="FILE|N", help="Which sample: its name, or its number. [the first of the epoch]")
@click.option(
    "--split", type=click.Choice(["train", "val", "test", "eval"]), help="Of which split; eval: as in evaluation."
)
@click.option("--draws", type=click.IntRange(1, 100), default=1, show_default=True, help="Of so many epochs.")
@click.option("--epoch", type=click.IntRange(min=1), default=1, show_default=True, help="The first of these epochs.")
@click.option("-o", "--picture", "file", type=_PATH, help="Draw it: a row per draw, a tile per transform.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--trust-code", is_flag=True, help="Run the Python code in the bundle, or in the run.")
def trace_sample(
    recipes: list[str],
    options: Options,
    sample: str | None,
    split: Any,
    draws: int,
    epoch: int,
    file: Path | None,
    as_json: bool,
    trust_code: bool,
) -> None:
    """Show what the transforms do to one sample.

    Prints a line for each transform: its arguments as drawn in that epoch, what comes out, how much of the image is
    left, and how long it takes; then the batch in which the sample lands, and what mixup or cutmix make of it.

    RECIPE may also be the folder of a run. Of a bundle or a published model, --sample is a photo or a text, and its
    transforms for evaluation are shown.

    \b
    For example:
        leaven trace dogs.leaven --sample cat/3.jpg --draws 4 -o trace.png
        leaven trace runs/dogs --split eval --sample photo.jpg
        leaven trace efficientnet_lite0 --sample photo.jpg
    """
    word = recipes[0]
    if file is not None:
        check_drawing(file, "`leaven trace --picture`")
    if is_recipe(word) or word == "-":
        found = _of_plan(compile_recipe(word, options, requires_args=True)[2], sample, split or "train", draws, epoch)
        _show(found, file, as_json=as_json)
    else:
        asked = {"sample": sample, "draws": draws, "epoch": epoch}
        _of_other(word=word, split=split, asked=asked, file=file, as_json=as_json, trust_code=trust_code)


def _of_plan(plan: "Plan", sample: str | None, split: Any, draws: int, epoch: int) -> "Trace":
    def trace(opened: "Opened") -> Any:
        from leaven.lab.tracing.trace import trace_in

        return trace_in(opened, sample, split, draws, epoch)

    found: Trace = asked_of_data(plan, trace)
    return found


@reports_failures
def _of_other(word: str, split: Any, asked: dict[str, Any], file: Path | None, as_json: bool, trust_code: bool) -> int:
    """Of a run, a bundle, or a published model."""
    from leaven.lab.subject import Subject
    from leaven.lab.tracing.trace import trace

    with status_line.doing(f"opening {word}…"):
        subject = Subject(word, trust_code=trust_code)
        found = trace(subject, split=split or ("train" if subject.plan is not None else "eval"), **asked)
    _show(found, file, as_json=as_json)
    return 0


def _show(found: "Trace", file: Path | None, *, as_json: bool) -> None:
    if as_json:
        echo_json(found.to_json())
    else:
        echo(found)
    if file is None:
        return
    if found.is_text:
        raise click.UsageError("a text has no picture; leave out --picture")
    from leaven.lab.tracing.shown import rows_of
    from leaven.pictures.batch import draw_batch

    draw(lambda: draw_batch(rows_of(found), file), file)
    echo(f"wrote {file}", err=True)
