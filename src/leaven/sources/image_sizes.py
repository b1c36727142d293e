"""How large the images of a source are, from the headers of their files: no pixel is decoded."""

import os
from collections.abc import Sequence
from pathlib import Path

MOST = 2_000  # files whose headers are read; of more, so many from all over
_ROTATED = (5, 6, 7, 8)  # orientations, as cameras write them, in which height and width are exchanged
_ORIENTATION = 0x0112


def image_sizes(files: Sequence[str], start: Path) -> dict[tuple[int, int], str]:
    """The heights and widths that images have, each with the path of one that has it, from `start`.

    Files that can't be read are left out: training reports them.
    """
    from PIL import Image, UnidentifiedImageError  # few checks need it

    found: dict[tuple[int, int], str] = {}
    for file in files[:: max(1, -(-len(files) // MOST))]:
        try:
            with Image.open(file) as image:
                width, height = image.size
                if image.format in ("JPEG", "TIFF", "WEBP", "MPO") and image.getexif().get(_ORIENTATION) in _ROTATED:
                    width, height = height, width
        except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
            continue
        if (height, width) not in found:
            found[height, width] = _from(file, start)
    return found


def _from(file: str, start: Path) -> str:
    try:
        return Path(os.path.relpath(file, start)).as_posix()
    except ValueError:  # on another drive
        return file
