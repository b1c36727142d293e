"""`leaven tinker`: what changes of a photo or a text do to the answers of models."""

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leaven.cli.bundle import reports_failures, trust_option, write_picture
from leaven.cli.printing import echo, echo_json
from leaven.lab import edits
from leaven.terminal import status_line

if TYPE_CHECKING:
    from leaven.lab.edits.edited import Edited
    from leaven.lab.subject import Subject

_PATH = click.Path(path_type=Path)
_EDITS = "leaven.tinker.edits"  # in the context: the edits in the order in which they were typed

_OPTIONS = Path(str(edits.__file__)).with_name("options.toml")
EDITS: dict[str, dict[str, tuple[str, str]]] = tomllib.loads(_OPTIONS.read_text(encoding="utf-8"))


def _edit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an option for each edit, which may be repeated; their order is kept."""
    for name, (metavar, help) in reversed((EDITS["image"] | EDITS["text"]).items()):
        takes = {"metavar": metavar} if metavar else {"is_flag": True, "flag_value": "true", "type": str}
        command = click.option(
            f"--{name}", multiple=bool(metavar), expose_value=False, callback=_note, help=help, **takes
        )(command)
    return command


def _note(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep the values of an option for `_typed_edits`; click calls this in the order of the command line."""
    values = value if isinstance(value, tuple) else (value,) if value else ()
    context.meta.setdefault(_EDITS, []).extend((str(option.name), each) for each in values)


def _typed_edits(typed: Sequence[tuple[str, str]]) -> list[Any]:
    from leaven.lab.edits.kinds import make_edit

    return [make_edit(name, _values(name, value)) for name, value in typed]


def _values(name: str, value: str) -> Any:
    """The arguments of an edit from its option: `0.1,0.2`, `good=bad`, `cat.png,0.5,0.5`."""
    if name == "replace":
        old, equals, new = value.partition("=")
        return (old, new) if equals else (value,)
    if name in ("grey", "negate"):
        return True
    return tuple(map(_number_or_text, value.split(",")))


def _number_or_text(value: str) -> Any:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        return value


@click.command()
@click.argument("model")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--with", "others", multiple=True, metavar="MODEL", help="Ask this model, too.")
@click.option("--top", default=5, show_default=True, type=click.IntRange(1, 100), help="How many numbers to print.")
@_edit_options
@click.option("--sweep", metavar="EDIT[=LOW:HIGH]", help="Vary an edit: where does the answer flip?")
@click.option("--steps", type=click.IntRange(2, 1000), default=21, show_default=True, help="Values of a sweep.")
@click.option("--flip", "finds_flip", is_flag=True, help="Search the smallest edit that changes the answer.")
@click.option("-o", "--output", type=_PATH, help="Write the changed image, or the plot of a sweep.")
@click.option("--python", "as_python", is_flag=True, help="Print the same as Python.")
@click.option("--save-check", type=_PATH, metavar="FILE", help="Add a check: the edits don't change the answer.")
@click.option("--journal", type=_PATH, metavar="FILE", help="Note question and answer, to be replayed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@trust_option
@reports_failures
def tinker(
    model: str,
    inputs: tuple[str, ...],
    others: tuple[str, ...],
    top: int,
    sweep: str | None,
    steps: int,
    finds_flip: bool,
    output: Path | None,
    as_python: bool,
    save_check: Path | None,
    journal: Path | None,
    as_json: bool,
    trust_code: bool,
) -> int:
    """Change a photo or a text, and see what a model answers.

    MODEL is a bundle, a run or the name of a published model, INPUT an image or a text (two for a model of pairs).
    Edits are applied in the order in which they are typed; each may be repeated. Differences are in points: from 81 %
    to 63 % are 18.

    \b
    For example:
        leaven tinker efficientnet_lite0 photo.jpg --brightness 0.5 --rotate 10
        leaven tinker runs/a photo.jpg --pad 8 --with runs/b
        leaven tinker dogs.bundle photo.jpg --sweep rotate=-45:45 -o rotate.png
        leaven tinker reviews.bundle "A good film." --replace good=bad
        leaven tinker dogs.bundle photo.jpg --flip
    """
    from leaven.lab.edits.edited import Edited
    from leaven.lab.subject import Subject

    if sweep is not None and finds_flip:
        raise click.UsageError("--sweep and --flip are different questions; ask one at a time")
    if save_check is not None and (sweep is not None or finds_flip):
        raise click.UsageError("--save-check saves the answer to edits; leave out --sweep and --flip")
    typed: list[tuple[str, str]] = click.get_current_context().meta.get(_EDITS, [])
    given = Edited(inputs[0] if len(inputs) == 1 else inputs, tuple(_typed_edits(typed)))
    with status_line.doing(f"loading {model}…"):
        subjects = [Subject(word, trust_code=trust_code) for word in (model, *others)]
        for one in subjects:
            _ = one.model
    answer = _answered(subjects, given, sweep=sweep, steps=steps, finds_flip=finds_flip, top=top, journal=journal)
    if answer is None:
        echo("null" if as_json else f"no single edit changes the answer of {model}")
        return 0
    if as_json:
        echo_json(answer.to_json())
    elif as_python:
        echo(answer.as_python(), nl=False)
    else:
        echo(str(answer))
        if recipe := answer.as_recipe():
            echo(f"\nto train for it, in the data block: train {recipe}")
    if output is not None:
        write_picture(output, answer.picture())
    if save_check is not None:
        from leaven.lab.checks import save_check as save

        echo(f"{save_check}: {save(answer, save_check).words}", err=True)
    return 0


def _answered(
    subjects: "list[Subject]",
    given: "Edited",
    *,
    sweep: str | None,
    steps: int,
    finds_flip: bool,
    top: int,
    journal: Path | None,
) -> Any:
    """The answers, the curves of a sweep, or the smallest flip."""
    from leaven.lab.journal import CALLS, Journal

    options: dict[str, Any] = {"k": top}
    call = "vary" if sweep is not None else "smallest_flip" if finds_flip else "predictions"
    if sweep is not None:
        name, between = _range(sweep)
        options |= {"name": name, "between": between, "steps": steps}
    elif finds_flip:
        options = {}
    if journal is not None:
        return Journal(journal).ask(call, subjects, given, **options)
    return CALLS[call][0](subjects, given, **options)


def _range(sweep: str) -> tuple[str, tuple[float, float] | None]:
    """The edit that is varied, and between which values: `rotate=-45:45`."""
    name, equals, between = sweep.partition("=")
    if not equals:
        return name, None
    low, colon, high = between.partition(":")
    try:
        if not colon or float(low) >= float(high):
            raise ValueError
    except ValueError:
        raise click.UsageError(f"--sweep {sweep}: a range is written LOW:HIGH, such as {name}=0.2:1.5") from None
    return name, (float(low), float(high))
