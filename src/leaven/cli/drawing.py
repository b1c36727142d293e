"""Pictures of predictions: `leaven predict --draw`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from leaven.runtime.failures import Failure
    from leaven.tasks.protocol import Prediction

_ENDINGS = (".png", ".jpg", ".jpeg", ".webp")


def draw_predictions(place: Path, found: "Sequence[tuple[str, Prediction]]", *, is_one: bool) -> "list[Failure]":
    """Draw each prediction on its image: to a file, or for several images into a folder, under their names."""
    from leaven.bundle.inputs.opening import as_image
    from leaven.runtime.failures import Failure
    from leaven.runtime.run.folder import write_whole

    if not found:
        return []
    if place.suffix and place.suffix.lower() not in _ENDINGS and not place.is_dir():
        help = f"name an image ({', '.join(_ENDINGS)}), or a folder: `--draw found.png`"
        return [Failure(f"{place} is not the name of an image", help)]
    is_file = is_one and place.suffix.lower() in _ENDINGS
    if not is_file and place.suffix.lower() in _ENDINGS:
        return [Failure(f"{place} is one file, but there are {len(found)} images", "give a folder: `--draw found`")]
    for file, answer in found:
        drawn = answer.drawn(as_image(file, "RGB"))
        if drawn is None:
            return [Failure("`--draw` is for models whose predictions have a place in the image")]
        target = place if is_file else place / f"{Path(file).stem}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        format = "JPEG" if target.suffix.lower() in (".jpg", ".jpeg") else target.suffix[1:].upper()
        write_whole(target, lambda beside, drawn=drawn, format=format: drawn.save(beside, format))  # type: ignore[misc]
    told = place if is_file else place / ""
    click.echo(f"wrote {os.path.relpath(told)}", err=True)
    return []
