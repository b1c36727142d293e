"""How large the images of a source are, and which of them are none, from the headers of their files: no pixel is
decoded."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST = 2_000  # files whose headers are read; of more, so many from all over
_ROTATED = (5, 6, 7, 8)  # orientations, as cameras write them, in which height and width are exchanged
_ORIENTATION = 0x0112


def image_sizes(files: Sequence[str], start: Path) -> dict[tuple[int, int], str]:
    """The heights and widths that images have, each with the path of one that has it, from `start`.

    Files that can't be read are left out: training reports them.
    """
    sizes: dict[tuple[int, int], str] = {}
    for file, size in _looked_at(files):
        if size is not None and size not in sizes:
            sizes[size] = _from(file, start)
    return sizes


def unreadable_images(files: Sequence[str]) -> tuple[str, ...]:
    """The files that are not images; none if no file is one."""
    looked_at = dict(_looked_at(files))
    return tuple(file for file, size in looked_at.items() if size is None) if any(looked_at.values()) else ()


def _looked_at(files: Sequence[str]) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """Some of the files, each with the height and width of its image; None where it can't be read."""
    from PIL import Image, UnidentifiedImageError  # few checks need it

    for file in files[:: max(1, -(-len(files) // MOST))]:
        try:
            with Image.open(file) as image:
                width, height = image.size
                if image.format in ("JPEG", "TIFF", "WEBP", "MPO") and image.getexif().get(_ORIENTATION) in _ROTATED:
                    width, height = height, width
        except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
            yield file, None
            continue
        yield file, (height, width)


def _from(file: str, start: Path) -> str:
    try:
        return Path(os.path.relpath(file, start)).as_posix()
    except ValueError:  # on another drive
        return file
