"""The commands for a trained model: `predict`, `evaluate`, `export`. The work is done by the bundle."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

import click

from leaven.cli.printing import echo, echo_json, echo_problem, fail
from leaven.files.atomic_files import write_bytes
from leaven.formats.run_folder import BUNDLE
from leaven.pictures.figure import CantDraw, check_installed
from leaven.terminal import status_line
from leaven.terminal.commands import typed
from leaven.terminal.table import aligned
from leaven.terminal.visible import visible

if TYPE_CHECKING:
    from leaven.bundle import Bundle
    from leaven.bundle.inputs import InputKind
    from leaven.lab.checks import Checked
    from leaven.runtime.failures import Failure
    from leaven.tasks.protocol import Evaluation, Prediction

TOP = 5
WIDEST = 60  # of what an input is called, in a table
_PICTURES = (".png", ".jpg", ".jpeg", ".webp")
_PATH = click.Path(path_type=Path)
_ARGUMENT = re.compile(r"`(root|image|label|data)=`")  # of `Bundle.evaluate`, in the help of a failure
trust_option = click.option("--trust-code", is_flag=True, help="Run the Python code in the bundle, or in the run.")
_bundle = click.argument("bundle", type=_PATH)


def reports_failures(command: Callable[..., int | None]) -> Callable[..., NoReturn]:
    """Exits with what a command returns; a failure is reported in a line or two."""

    @wraps(command)
    def run(**given: Any) -> NoReturn:
        with status_line.doing("importing PyTorch…"):
            from leaven.runtime.failures import Failure, show_cautions

        show_cautions()
        try:
            sys.exit(command(**given))
        except Failure as failure:
            failure.help = _ARGUMENT.sub(r"`--\1`", failure.help).replace("`trust_code=True`", "`--trust-code`")
            fail(failure.headline, failure.help, code=1)
        except CantDraw as problem:
            fail(str(problem), code=1)

    return run


def write_picture(file: Path, picture: bytes) -> None:
    """Write a picture to a .png file, and say so."""
    if file.suffix.lower() != ".png":
        raise click.UsageError(f"{file} must end in .png")
    try:
        write_bytes(file, picture)
    except OSError as problem:
        fail(f"can't write {file}: {problem.strerror}", code=1)
    echo(f"wrote {os.path.relpath(file)}", err=True)


@click.command()
@_bundle
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--top", type=click.IntRange(min=1), help="How many classes to print (one input: 5; several: 1).")
@click.option("--threshold", type=click.FloatRange(0, 1), help="Confidence threshold for objects or labels. [0.5]")
@click.option("--text", "text_columns", multiple=True, help="The column (or two) of a table of texts. [as in training]")
@click.option("--image", metavar="COLUMN", help="The column of a table with the files. [as in training]")
@click.option("--root", type=_PATH, help="Where the paths in a table start. [its folder]")
@click.option("--csv", "csv_file", type=_PATH, help="Write a table to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--draw", type=_PATH, help="Draw what is found: a file, or a folder for several.")
@trust_option
@reports_failures
def predict(
    bundle: Path,
    inputs: tuple[str, ...],
    top: int | None,
    threshold: float | None,
    text_columns: tuple[str, ...],
    image: str | None,
    root: Path | None,
    csv_file: Path | None,
    as_json: bool,
    draw: Path | None,
    trust_code: bool,
) -> int:
    """Predict with a trained model.

    \b
    INPUT, for an image model:
        a file, a folder of images, a pattern such as "*.jpg", a table that names them, or a URL
    INPUT, for a text model:
        the text itself, a file with a text per line, a table, or - for standard input;
        two texts are a pair for a model that takes pairs

    \b
    BUNDLE can be:
        a bundle: dogs.bundle
        the folder of a run, or a folder of runs: the newest
        a run that is not finished: its best epoch so far; or one of its checkpoints, such as last.ckpt
        the name of a published model: efficientnet_lite0

    An unfinished run needs --trust-code if its recipe uses Python files, or if its program was edited. Exit code 1
    means that some inputs could not be read; the others are predicted.

    \b
    For example:
        leaven predict efficientnet_lite0 photo.jpg
        leaven predict dogs.bundle photo.jpg
        leaven predict runs/dogs holidays --csv holidays.csv
        leaven predict reviews.bundle "I loved every minute"
        leaven predict street.bundle photo.jpg --draw found.png
    """
    from leaven.runtime.run.folder import write_table

    model = _loaded(bundle, trust_code)
    takes = model.manifest.takes
    given, problems, is_one = takes.meant(inputs, text_columns or ((image,) if image is not None else ()), root)
    is_one = is_one and not os.path.isdir(inputs[0]) and csv_file is None
    if draw is not None:
        _check_picture(draw, len(given), is_one=is_one)
    found: list[tuple[str, Prediction]] = []
    for shown, answer in _predicted(model, given):
        if isinstance(answer, Exception):
            problems.append(answer)
        else:
            found.append((shown, answer if threshold is None else _above(threshold, answer)))
    most = found[0][1].most if found else None
    count = top or most or (TOP if is_one else 1)
    if draw is not None:
        problems += draw_predictions(draw, found, is_one=is_one)
    if csv_file is not None:
        columns = [takes.heading, *(found[0][1].columns if found else ())]  # whatever the rows have
        rows = [{takes.heading: shown, **row} for shown, answer in found for row in answer.rows(count)]
        write_table(csv_file, rows, columns)
        echo(f"{csv_file}: {len(found)} {takes.noun}{'s' * (len(found) != 1)}")
    elif as_json:
        told = [{takes.heading: shown, **answer.to_json(count)} for shown, answer in found]
        echo_json(told)
    elif found:
        echo(found[0][1].describe(count) if is_one else _table(takes, found, count))
    for problem in problems:
        echo_problem(problem.headline, problem.help)
    if problems and len(given) > 1:
        echo(f"{len(problems)} of {len(given)} could not be read", err=True)
    return 1 if problems else 0


@click.command()
@_bundle
@click.argument("surplus", nargs=-1, metavar="")
@click.option("--data", type=_PATH, help="A folder of labelled samples, or a table. [the run's]")
@click.option(
    "--split", type=click.Choice(["train", "val", "test", "all"]), help="Which split of the data. [test, else val]"
)
@click.option("--image", metavar="COLUMN", help="The column of a table with the files [as in training]")
@click.option("--text", multiple=True, help="The column (or two) of a table with the texts. [as in training]")
@click.option("--label", multiple=True, help="The column (or columns) with the labels. [as in training]")
@click.option("--root", type=_PATH, help="Where the paths in a table start.")
@click.option("--batch", default=32, show_default=True, type=click.IntRange(min=1), help="How many samples at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every sample that was predicted wrongly.")
@click.option("--html", type=_PATH, help="Write a page with figures and the worst predictions.")
@click.option("--plots", type=_PATH, help="Write the figures into this folder.")
@click.option("--wrong", type=_PATH, help="Write a table of the samples that were predicted wrongly.")
@click.option("--checks", "checks_file", type=_PATH, help="A file of checks. [model.checks beside model.bundle]")
@trust_option
@reports_failures
def evaluate(
    bundle: Path,
    surplus: tuple[str, ...],
    as_json: bool,
    html: Path | None,
    plots: Path | None,
    wrong: Path | None,
    checks_file: Path | None,
    trust_code: bool,
    **asked: Any,
) -> int:
    """Evaluate a trained model on labelled images or texts.

    Without --data, the model of a run is evaluated on the run's own data: on its test split, else on its validation
    split. A bundle without its run needs --data, a folder of labelled samples or a table; class folders must be named
    like the model's classes.

    Prints the scores and those of each class and, of a classifier, the confusion matrix (of more than 12 classes, the
    most frequent errors). --html and --plots need matplotlib: pip install matplotlib.

    Checks are lines such as: expect "cat.jpg" padded by 8 px is "cat". Those beside the bundle are always carried out;
    `leaven tinker --save-check` writes them. Exit code 1 means that some samples could not be read, or that a check
    fails.

    \b
    For example:
        leaven evaluate runs/dogs
        leaven evaluate dogs.bundle --data photos --html dogs.html --wrong wrong.csv
    """
    from leaven.lab.checks import carry_out, checks_of
    from leaven.lab.run_data import has_run
    from leaven.runtime.run.folder import write_table

    if surplus:
        raise click.UsageError(f"data is given by an option: --data {typed(surplus[0])}")
    try:  # before anything is measured
        for flag, place in (("--html", html), ("--plots", plots)):
            if place is not None:
                check_installed(f"`{flag}`")
    except CantDraw as problem:
        raise click.UsageError(str(problem)) from None
    html, plots, wrong = (place and place.absolute() for place in (html, plots, wrong))
    asked |= {"workers": "auto", "on_bad_file": "skip", "shows_progress": True, "html": html}
    model = _loaded(bundle, trust_code)
    checks = checks_of(model, checks_file)  # before anything is measured
    if checks_file is not None and asked["data"] is None and not has_run(model.path):
        return _report_checks(list(carry_out(checks, model)), as_json=as_json)
    found = _measured(model, asked.pop("data"), asked, trust_code=trust_code)
    checked = list(carry_out(checks, model))
    if as_json:
        echo_json(found.to_json() | ({"checks": [one.to_json() for one in checked]} if checks else {}))
    else:
        echo(str(found))
        if checked:
            echo()
            _report_checks(checked)
    written = [html] if html else []
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
        for plot in found.plots():
            written.append(plots / f"{plot.name}.png")
            write_bytes(written[-1], plot.png())
    if wrong is not None:
        write_table(wrong, found.wrong())
        written.append(wrong)
    for place in written:
        echo(f"wrote {os.path.relpath(place)}", err=True)
    for file in found.skipped:
        echo(f"error: {file} can't be used and was skipped", err=True)
    return 1 if found.skipped or not all(one.holds for one in checked) else 0


@click.command()
@_bundle
@click.option("--to", required=True, type=click.Choice(["onnx", "torch_export"]), help="The format.")
@click.option("-o", "--output", type=_PATH, help="The file to write. [beside the bundle]")
@click.option("--size", type=click.IntRange(min=1), help="Height and width of the input. [as in training]")
@trust_option
@reports_failures
def export(
    bundle: Path, to: Literal["onnx", "torch_export"], output: Path | None, size: int | None, trust_code: bool
) -> None:
    """Convert a model for other programs.

    \b
    onnx          for ONNX Runtime and others; needs pip install onnx onnxscript onnxruntime
    torch_export  a .pt2 file for torch.export.load, which unpickles: load only files that you trust

    The exported model takes prepared tensors, in batches of any size; classes and transforms are in its metadata. It
    is loaded again, and its outputs are compared with the model's.
    """
    model = _loaded(bundle, trust_code, device="cpu")
    written = model.export(to, output, size=size)
    echo(f"{written}: {os.path.getsize(written) / 2**20:.1f} MB, same outputs as {model.path.name}")


def _loaded(bundle: Path, trust_code: bool, device: str | None = None) -> "Bundle":
    import torch

    import leaven

    with status_line.doing(f"loading {bundle}…"):
        found = leaven.load(
            bundle, trust_code=trust_code, device=device or ("cuda" if torch.cuda.is_available() else "cpu")
        )
    if found.path != bundle and found.path.name == BUNDLE:
        from leaven.runs.unfinished import not_up_to_date

        echo(f"using {found.path}{not_up_to_date(bundle, found.path)}", err=True)
    return found


def _measured(model: "Bundle", data: Path | None, asked: Mapping[str, Any], *, trust_code: bool) -> "Evaluation":
    """How well the model does on the data that is asked for; else on that of its run."""
    from leaven.lab.run_data import data_of, has_run
    from leaven.runtime.failures import Failure

    if data is not None:
        return cast("Evaluation", model.evaluate(data, **asked))
    if not has_run(model.path):
        raise Failure(
            f"{model.path} is not in the folder of a run, so the data to evaluate it on is not known",
            f"give labelled {model.manifest.takes.noun}s: `data=`",
        )
    with data_of(model.path.parent, trust_code=trust_code) as dataset:
        return cast("Evaluation", model.evaluate(dataset, **asked))


def _report_checks(checked: "Sequence[Checked]", *, as_json: bool = False) -> int:
    """Print how many checks hold, and those that fail; the exit code."""
    failed = [one for one in checked if not one.holds]
    if as_json:
        echo_json({"checks": [one.to_json() for one in checked]})
    else:
        echo(f"{len(checked) - len(failed)} of {len(checked)} checks hold")
        for one in failed:
            echo(one.words)
    return 1 if failed else 0


def _predicted(model: "Bundle", given: Sequence[tuple[str, Any]]) -> "Iterator[tuple[str, Prediction | Failure]]":
    from leaven.runtime.run.progress import Bar

    with Bar("predicting", len(given), is_shown=len(given) > 1) as bar:
        for (shown, _), answer in zip(given, model.each(each for _, each in given), strict=True):
            bar.advance()
            yield shown, answer


# -- how it looks


def _table(takes: "InputKind", found: "Sequence[tuple[str, Prediction]]", count: int) -> str:
    """A line for each file or text, with the cells of its prediction."""
    names = [takes.shortened(shown, WIDEST) for shown, _ in found]
    cells = [answer.cells(count, on_screen=True) for _, answer in found]
    header = [takes.heading, *max(cells, key=len)]
    rows = [[visible(cell) for cell in (name, *row.values())] for name, row in zip(names, cells, strict=True)]
    return "\n".join(aligned([header, *rows]))


def _above(threshold: float, answer: "Prediction") -> "Prediction":
    from leaven.runtime.failures import Failure

    found = answer.above_threshold(threshold)
    if found is None:
        raise Failure("`--threshold` is for models that find objects, or any number of labels")
    return found


def _check_picture(place: Path, count: int, *, is_one: bool) -> None:
    """A Failure where predictions of so many images can't be drawn there."""
    from leaven.runtime.failures import Failure

    if place.suffix and place.suffix.lower() not in _PICTURES and not place.is_dir():
        help = f"name an image ({', '.join(_PICTURES)}), or a folder: `--draw found.png`"
        raise Failure(f"{place} is not the name of an image", help)
    if not is_one and place.suffix.lower() in _PICTURES:
        raise Failure(f"{place} is one file, but there are {count} images", "give a folder: `--draw found`")


def draw_predictions(place: Path, found: "Sequence[tuple[str, Prediction]]", *, is_one: bool) -> "list[Failure]":
    """Draw each prediction on its image: to a file, or for several images into a folder, under their names."""
    from leaven.bundle.inputs.opening import as_image
    from leaven.runtime.failures import Failure
    from leaven.runtime.run.folder import write_whole

    is_file = is_one and place.suffix.lower() in _PICTURES
    taken: Counter[str] = Counter()
    for file, answer in found:
        drawn = answer.drawn(as_image(file, "RGB"))
        if drawn is None:
            return [Failure("`--draw` is for models whose predictions have a place in the image")]
        stem = Path(file).stem
        taken[stem] += 1  # images in several folders may have the same name
        target = place if is_file else place / f"{stem}{f'-{taken[stem]}' * (taken[stem] > 1)}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        format = "JPEG" if target.suffix.lower() in (".jpg", ".jpeg") else target.suffix[1:].upper()
        write_whole(target, lambda beside, drawn=drawn, format=format: drawn.save(beside, format))  # type: ignore[misc]
    if found:
        told = place if is_file else place / ""
        echo(f"wrote {os.path.relpath(told)}", err=True)
    return []
