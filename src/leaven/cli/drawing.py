"""Pictures of predictions: `leaven predict --draw`."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leaven.cli.printing import echo

if TYPE_CHECKING:
    from leaven.runtime.failures import Failure
    from leaven.tasks.protocol import Prediction

_ENDINGS = (".png", ".jpg", ".jpeg", ".webp")


def refused(place: Path, count: int, *, is_one: bool) -> "Failure | None":
    """Why predictions of so many images can't be drawn there; None where they can."""
    from leaven.runtime.failures import Failure

    if place.suffix and place.suffix.lower() not in _ENDINGS and not place.is_dir():
        help = f"name an image ({', '.join(_ENDINGS)}), or a folder: `--draw found.png`"
        return Failure(f"{place} is not the name of an image", help)
    if not is_one and place.suffix.lower() in _ENDINGS:
        return Failure(f"{place} is one file, but there are {count} images", "give a folder: `--draw found`")
    return None


def draw_predictions(place: Path, found: "Sequence[tuple[str, Prediction]]", *, is_one: bool) -> "list[Failure]":
    """Draw each prediction on its image: to a file, or for several images into a folder, under their names."""
    from leaven.bundle.inputs.opening import as_image
    from leaven.runtime.failures import Failure
    from leaven.runtime.run.folder import write_whole

    is_file = is_one and place.suffix.lower() in _ENDINGS
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
