"""The command `leaven why`: which pixels or words an answer rests on."""

import sys
from pathlib import Path
from typing import Any

import click

from leaven.cli.bundle import reports_failures, trust_option, write_picture
from leaven.cli.printing import echo_json, echo_painted
from leaven.terminal import status_line
from leaven.terminal.colors import painter, wants_color

METHODS = ("integrated_gradients", "gradient", "grad_cam", "occlusion")  # those of `lab/attribution.py`


@click.command()
@click.argument("model")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--target", metavar="NAME", help="Explain this class, label, number or box, not the answer.")
@click.option("--method", type=click.Choice(METHODS), default=METHODS[0], show_default=True, help="How it is computed.")
@click.option("--layer", metavar="SELECTOR", help="The layer of grad_cam; by default the last stage.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The picture; by default why.png.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; a picture is written only with --output.")
@trust_option
@reports_failures
def why(
    model: str,
    inputs: tuple[str, ...],
    target: str | None,
    method: str,
    layer: str | None,
    output: Path | None,
    as_json: bool,
    trust_code: bool,
) -> int:
    """Show which pixels or words an answer rests on.

    MODEL is a bundle, a run or the name of a published model, INPUT an image or a text (two for a model of pairs). Of
    an image, a picture is written: red supports the answer, blue speaks against it, and the frame is the part that the
    model was given. The words of a text are printed in green and red.

    \b
    For example:
        leaven why efficientnet_lite0 photo.jpg -o why.png
        leaven why dogs.bundle photo.jpg --target cat --method occlusion
        leaven why objects.bundle street.jpg --target "car 2"
        leaven why reviews.bundle "A good film."
    """
    found = _attribution(model, inputs[0] if len(inputs) == 1 else inputs, target, method, layer or "", trust_code)
    if as_json:
        echo_json(found.to_json())
    else:
        color = wants_color(sys.stdout)
        echo_painted(found.painted(painter(color)), color=color)
    if as_json and output is None:
        return 0
    if (picture := found.picture()) is not None:
        write_picture(output or Path("why.png"), picture)
    elif output is not None:
        raise click.UsageError("a text has no picture; leave out --output")
    return 0


def _attribution(model: str, given: Any, target: str | None, method: str, layer: str, trust_code: bool) -> Any:
    from leaven.lab.attribution import attribute, occlusion
    from leaven.lab.subject import Subject

    subject = Subject(model, trust_code=trust_code)
    with status_line.doing(f"loading {model}…"):
        _ = subject.model
    if method != "occlusion" or layer:
        return attribute(subject, given, target, method, layer=layer)
    with status_line.doing("covering parts of the input…"):
        *_, last = occlusion(subject, given, target)
    return last
