"""What `leaven evaluate` does besides printing: finding the data of a run, and writing figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leaven.pictures.figure import CantDraw, check_installed

if TYPE_CHECKING:
    from leaven.bundle import Bundle
    from leaven.tasks.protocol import Evaluation


def check_figures(html: Path | None, plots: Path | None) -> None:
    """Refuse what needs matplotlib where it is missing, before anything is measured."""
    try:
        for flag, place in (("--html", html), ("--plots", plots)):
            if place is not None:
                check_installed(f"`{flag}`")
    except CantDraw as problem:
        raise click.UsageError(str(problem)) from None


def measured(model: "Bundle", asked: Mapping[str, Any], *, trust_code: bool) -> "Evaluation":
    """How well the model does on the data that is asked for; else on that of its run."""
    from leaven.lab.run_data import data_of, has_run
    from leaven.runtime.failures import Failure

    given = {name: value for name, value in asked.items() if name != "data"}
    if asked["data"] is not None:
        found: Evaluation = model.evaluate(asked["data"], **given)
        return found
    if not has_run(model.path):
        raise Failure(
            f"{model.path} is not in the folder of a run, so the data to evaluate it on is not known",
            f"give labelled {model.manifest.takes.noun}s: `data=`",
        )
    with data_of(model.path.parent, trust_code=trust_code) as data:
        found = model.evaluate(data, **given)
    return found


def write_plots(folder: Path, found: "Evaluation") -> list[Path]:
    """Write the figures of an evaluation into a folder, which is made."""
    from leaven.files.atomic_files import write_bytes

    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for plot in found.plots():
        file = folder / f"{plot.name}.png"
        write_bytes(file, plot.png())
        written.append(file)
    return written
