"""The commands for a finished model: `predict`, `evaluate`, `export`. What they do is the bundle's business."""

import csv
import glob
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from leaven.bundle import Bundle, Prediction
    from leaven.runtime.failures import Failure

TOP = 5
WIDEST = 60  # of a file's name in a table
_trust = click.option("--trust-code", is_flag=True, help="Run the Python code that the bundle brings along.")
_bundle = click.argument("bundle", type=click.Path(path_type=Path))


@click.command()
@_bundle
@click.argument("inputs", nargs=-1, required=True, metavar="PICTURE...")
@click.option("--top", type=click.IntRange(min=1), help="How many classes to print (one picture: 5; several: 1).")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write a table to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_trust
def predict(
    bundle: Path, inputs: tuple[str, ...], top: int | None, csv_file: Path | None, as_json: bool, trust_code: bool
) -> None:
    """Ask a model what is in pictures.

    A PICTURE is a file, a folder of them, a pattern such as "*.jpg", or an address. A BUNDLE may be given as the folder
    of its run, or of several runs: the newest is asked. Exit code 1 says that some pictures could not be read; the
    others are predicted.

    \b
    For example:
        leaven predict dogs.bundle photo.jpg
        leaven predict runs/dogs holidays --csv holidays.csv
    """
    sys.exit(run_predict(bundle, inputs, top=top, csv_file=csv_file, as_json=as_json, trust_code=trust_code))


@click.command()
@_bundle
@click.option(
    "--data", required=True, type=click.Path(path_type=Path), help="A folder of class folders, or a csv file."
)
@click.option(
    "--part", type=click.Choice(["train", "val", "test", "all"]), help="Which part of the data. [test, else val]"
)
@click.option("--image", default="image", show_default=True, help="The csv column with the files.")
@click.option("--label", default="label", show_default=True, help="The csv column with the classes.")
@click.option("--root", type=click.Path(path_type=Path), help="Where the paths in a csv file start.")
@click.option("--batch", default=32, show_default=True, type=click.IntRange(min=1), help="How many pictures at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_trust
def evaluate(bundle: Path, as_json: bool, trust_code: bool, **asked: Any) -> None:
    """Measure a model on pictures whose classes are known.

    Prints its scores and a confusion table; of more than 12 classes, the most frequent mistakes. The folders must be
    named like the model's classes. Exit code 1 says that some pictures could not be read.
    """
    sys.exit(run_evaluate(bundle, as_json=as_json, trust_code=trust_code, **asked))


@click.command()
@_bundle
@click.option("--to", required=True, type=click.Choice(["onnx", "torch_export"]), help="For which kind of program.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write. [beside the bundle]")
@click.option("--size", type=click.IntRange(min=1), help="Height and width of the input. [as in training]")
@_trust
def export(
    bundle: Path, to: Literal["onnx", "torch_export"], output: Path | None, size: int | None, trust_code: bool
) -> None:
    """Write a model for other programs, and compare its outputs before saying done.

    \b
    onnx          for ONNX Runtime and others; needs pip install 'leaven[export]'
    torch_export  a .pt2 file for torch.export.load, which unpickles: load only files that you trust

    What is written takes prepared tensors, in batches of any size; classes and steps are in its metadata.
    """
    sys.exit(run_export(bundle, to, output, size=size, trust_code=trust_code))


# -- what they do


def run_predict(
    bundle: Path,
    inputs: Sequence[str],
    *,
    top: int | None = None,
    csv_file: Path | None = None,
    as_json: bool = False,
    trust_code: bool = False,
) -> int:
    """Print or write what the model says; 1 where anything went wrong."""

    def work() -> int:
        model = _loaded(bundle, trust_code)
        files, problems = _found(inputs)
        is_one = len(files) == 1 and not os.path.isdir(inputs[0]) and len(inputs) == 1 and csv_file is None
        said: list[tuple[str, Prediction]] = []
        for file, answer in _asked(model, files):
            if isinstance(answer, Exception):
                problems.append(answer)
            else:
                said.append((file, answer))
        count = top or (TOP if is_one else 1)
        if csv_file is not None:
            _write_csv(csv_file, said, count)
            click.echo(f"{csv_file}: {_counted(len(said))}")
        elif as_json:
            click.echo(
                json.dumps([_as_json(file, answer, count) for file, answer in said], ensure_ascii=False, indent=2)
            )
        elif is_one and said:
            _print(_ranking(said[0][1], count))
        elif said:
            _print(_table(said, count))
        _report_all(problems, len(files))
        return 1 if problems else 0

    return _told(work)


def run_evaluate(
    bundle: Path,
    data: Path,
    *,
    part: Literal["train", "val", "test", "all"] | None = None,
    image: str = "image",
    label: str = "label",
    root: Path | None = None,
    batch: int = 32,
    as_json: bool = False,
    trust_code: bool = False,
) -> int:
    """Print how well the model does; 1 where anything went wrong."""

    def work() -> int:
        found = _loaded(bundle, trust_code).evaluate(
            data,
            part=part,
            image=image,
            label=label,
            root=root,
            batch=batch,
            workers="auto",
            on_bad_file="skip",
            shows_progress=_is_watched(),
        )
        if as_json:
            told = {
                "pictures": found.count,
                "scores": found.scores,
                "classes": list(found.classes),
                "per_class": found.per_class,
                "confusion": found.confusion.tolist(),
                "skipped": list(found.skipped),
            }
            click.echo(json.dumps(told, ensure_ascii=False, indent=2))
        else:
            _print(str(found))
        for file in found.skipped:
            click.echo(f"error: {file} can't be read, and was left out", err=True)
        return 1 if found.skipped else 0

    return _told(work)


def run_export(
    bundle: Path,
    to: Literal["onnx", "torch_export"],
    output: Path | None = None,
    *,
    size: int | None = None,
    trust_code: bool = False,
) -> int:
    """Write the model in another format; 1 where that can't be."""

    def work() -> int:
        model = _loaded(bundle, trust_code, device="cpu")
        written = model.export(to, output, size=size)
        size_of_it = f"{os.path.getsize(written) / 2**20:.1f} MB"
        click.echo(f"{written}: {size_of_it}, and its outputs are those of {model.path.name}")
        return 0

    return _told(work)


def _print(text: str) -> None:
    """Print what comes out of a bundle, without characters by which its maker could command the terminal."""
    click.echo("".join(mark if mark.isprintable() or mark == "\n" else "�" for mark in text))


def _told(work: Callable[[], int]) -> int:
    """The exit code of some work; a failure is told in a line or two."""
    from leaven.runtime.failures import Failure

    try:
        return work()
    except Failure as failure:
        _report(failure)
        return 1


def _report(failure: "Failure") -> None:
    click.echo(f"error: {failure.headline}", err=True)
    if failure.help:
        click.echo(f"help: {failure.help}", err=True)


def _report_all(problems: "Sequence[Failure]", files: int) -> None:
    for problem in problems:
        _report(problem)
    if problems and files > 1:
        click.echo(f"{len(problems)} of {files} could not be read", err=True)


def _loaded(bundle: Path, trust_code: bool, device: str | None = None) -> "Bundle":
    import torch

    from leaven.bundle import load

    found = load(bundle, trust_code=trust_code, device=device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if found.path != bundle:
        click.echo(f"using {found.path}", err=True)
    return found


def _asked(model: "Bundle", files: Sequence[str]) -> "Iterator[tuple[str, Prediction | Failure]]":
    answers: Any = zip(files, model.each(files), strict=True)
    if _is_watched() and len(files) > 1:
        from tqdm import tqdm

        answers = tqdm(answers, total=len(files), unit="picture", leave=False)
    yield from answers


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _found(inputs: Sequence[str]) -> "tuple[list[str], list[Failure]]":
    """The files that are meant, each once; and what is wrong with those that mean none."""
    from leaven.bundle.inputs import HEIC_ENDINGS
    from leaven.formats.image_folder import IMAGE_ENDINGS, files_below
    from leaven.runtime.failures import Failure

    files: dict[str, None] = {}
    problems = []
    for given in inputs:
        if os.path.isdir(given):
            there = sorted(f for f in files_below(Path(given)) if f.lower().endswith((*IMAGE_ENDINGS, *HEIC_ENDINGS)))
            if not there:
                problems.append(Failure(f"{given} holds no pictures", f"known are {', '.join(IMAGE_ENDINGS)}"))
        elif glob.has_magic(given) and not os.path.exists(given) and not given.startswith(("http://", "https://")):
            there = sorted(file for file in glob.glob(given, recursive=True) if os.path.isfile(file))
            if not there:
                problems.append(Failure(f"no file is named like {given}"))
        else:
            there = [given]
        files |= dict.fromkeys(there)
    return list(files), problems


# -- how it looks


def _ranking(answer: "Prediction", count: int) -> str:
    ranked = answer.top(count)
    width = max(len(label) for label, _ in ranked)
    return "\n".join(f"{label:<{width}}  {100 * share:5.1f} %" for label, share in ranked)


def _table(said: "Sequence[tuple[str, Prediction]]", count: int) -> str:
    """A line for each file, with the likeliest classes beside each other."""
    names = [file if len(file) <= WIDEST else "…" + file[1 - WIDEST :] for file, _ in said]
    ranked = [answer.top(count) for _, answer in said]
    first = max(map(len, [*names, "file"]))
    width = max(len("label"), *(len(label) for row in ranked for label, _ in row))
    head = f"{'file':<{first}}  {'label':<{width}}  confidence"
    lines = [
        "  ".join([f"{name:<{first}}", *(f"{label:<{width}}  {100 * share:5.1f} %" for label, share in row)])
        for name, row in zip(names, ranked, strict=True)
    ]
    return "\n".join([head, *lines])


def _write_csv(file: Path, said: "Sequence[tuple[str, Prediction]]", count: int) -> None:
    """file, label, confidence; with `--top`, also label_2, confidence_2 and so on."""
    from leaven.runtime.run.folder import write_text

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    ranks = ["", *(f"_{rank}" for rank in range(2, count + 1))]
    ranks = ranks[: len(said[0][1].classes)] if said else ranks
    table.writerow(["file", *(f"{column}{rank}" for rank in ranks for column in ("label", "confidence"))])
    for name, answer in said:
        table.writerow([name, *(cell for label, share in answer.top(count) for cell in (label, f"{share:.6f}"))])
    write_text(file, text.getvalue())


def _as_json(file: str, answer: "Prediction", count: int) -> dict[str, Any]:
    top = [{"label": label, "confidence": share} for label, share in answer.top(count)]
    return {"file": file, "label": answer.label, "confidence": answer.confidence, "top": top}


def _counted(count: int) -> str:
    return f"{count} picture{'s' * (count != 1)}"
