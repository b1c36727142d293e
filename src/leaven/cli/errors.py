"""The command `leaven errors`: the mistakes of a model."""

import csv
import io
from pathlib import Path
from typing import Any

import click

from leaven.cli.printing import echo, echo_json, fail
from leaven.files.atomic_files import write_bytes, write_text

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("model")
@click.option("--data", metavar="PATH", help="A folder or table of labelled inputs. [what the run kept for testing]")
@click.option("--suspects", is_flag=True, help="Look for labels that are probably wrong (needs cleanlab).")
@click.option("--folds", type=click.IntRange(min=2), help="The same for all samples, also those of training.")
@click.option("--duplicates", is_flag=True, help="Look for samples that are in two splits; opens all images.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "csv_file", type=_PATH, help="Write all mistakes to this file.")
@click.option("-o", "--output", type=_PATH, help="Draw the worst mistakes.")
@click.option("--trust-code", is_flag=True, help="Run the Python code in the bundle, or in the run.")
def errors(
    model: str,
    data: str | None,
    suspects: bool,
    folds: int | None,
    duplicates: bool,
    as_json: bool,
    csv_file: Path | None,
    output: Path | None,
    trust_code: bool,
) -> int:
    """Show the mistakes of a model: the most confident ones, and what they have in common.

    MODEL is a run, a bundle or the name of a published model. A finished run has recorded what its model says of each
    sample that it kept for testing and validation; for other data (--data) that is measured once.

    \b
    For example:
        leaven errors runs/dogs -o mistakes.png
        leaven errors runs/dogs --suspects --duplicates
        leaven errors runs/dogs --folds 5 --csv mistakes.csv
        leaven errors dogs.bundle --data photos/test
    """
    from leaven.lab.mistakes.errors import QUICK_PARTS, Errors
    from leaven.lab.mistakes.errors import errors as errors_of
    from leaven.lab.mistakes.report import report

    parts = [*QUICK_PARTS, *["suspects"] * bool(suspects or folds), *["duplicates"] * duplicates]
    try:
        found: Errors = errors_of(model, data, folds=folds, trust_code=trust_code)
        if csv_file is not None:
            write_text(csv_file, _table(found, parts))
        if as_json:
            echo_json(found.to_json(parts))
        else:
            echo(report(found, parts))
        if output is not None:
            _draw(found, output)
    except Exception as problem:
        if not hasattr(problem, "headline"):  # those of runtime, whose room needs torch, and of the terminal
            raise
        fail(problem.headline, getattr(problem, "help", ""), code=1)
    return 0


def _draw(found: Any, output: Path) -> None:
    from leaven.pictures.figure import CantDraw

    try:
        picture = found.picture()
    except CantDraw as problem:
        fail(str(problem))
    if picture is None:
        fail("texts have no picture", "leave out --output")
    write_bytes(output, picture)
    echo(f"wrote {output}", err=True)


def _table(found: Any, parts: list[str]) -> str:
    """All mistakes as rows, with how doubtful their label is where that was asked for."""
    quality = {}
    if "suspects" in parts and not isinstance(found.suspects, str):
        quality = {one.at: one.quality for one in found.suspects}
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["file", "split", "label", "prediction", "confidence", "error", *["label_quality"] * bool(quality)])
    for one in found.wrong:
        sure = "" if one.confidence is None else f"{one.confidence:.6g}"
        more = [f"{quality[one.at]:.6g}" if one.at in quality else ""] if quality else []
        writer.writerow([one.file, one.split, one.label, one.prediction, sure, f"{one.error:.6g}", *more])
    return table.getvalue()
