"""Which images are meant on the command line: files, those in a folder or of a pattern, those that a table names."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from leaven.bundle.inputs.opening import HEIC_ENDINGS
from leaven.bundle.inputs.tables import rows_of
from leaven.formats.finding import BadSource
from leaven.formats.image_folder import IMAGE_ENDINGS, files_below, is_image
from leaven.formats.tables import Embedded, Layout, is_table_like
from leaven.runtime.failures import Failure
from leaven.sources.columns import ImageColumn


def is_folder_or_pattern(given: str) -> bool:
    """Whether a path means any number of files; a file whose name looks like a pattern is that file."""
    return os.path.isdir(given) or (
        glob.has_magic(given) and not os.path.exists(given) and not given.startswith(("http://", "https://"))
    )


def find_files(inputs: Sequence[str]) -> tuple[list[str], list[Failure]]:
    """The files that are meant, each once; and what is wrong where there are none."""
    files: dict[str, None] = {}
    problems = []
    for given in inputs:
        if not is_folder_or_pattern(given):
            there = [given]
        elif os.path.isdir(given):
            there = sorted(f for f in files_below(Path(given)) if f.lower().endswith((*IMAGE_ENDINGS, *HEIC_ENDINGS)))
            if not there:
                problems.append(Failure(f"{given} has no images", f"images end in {', '.join(IMAGE_ENDINGS)}"))
        else:
            there = sorted(file for file in glob.glob(given, recursive=True) if os.path.isfile(file))
            if not there:
                problems.append(Failure(f"no file matches {given}"))
        files |= dict.fromkeys(there)
    return list(files), problems


def find_images(
    inputs: Sequence[str], column: ImageColumn, layout: Layout, root: Path | None
) -> tuple[dict[str, str | bytes], list[Failure]]:
    """The images that are meant, each once, by what they are called; and what is wrong where there are none.

    A table has them in this column; its layout may be that of the training, and its paths start in `root` or in its
    folder.
    """
    images: dict[str, str | bytes] = {}
    problems: list[Failure] = []
    for given in inputs:
        if not os.path.isfile(given) or is_image(given) or not is_table_like(Path(given), layout):
            files, wrong = find_files([given])
            images |= {file: file for file in files}
            problems += wrong
            continue
        try:
            images |= _named_by(given, column, layout, root)
        except Failure as problem:
            problems.append(problem)
        except BadSource as problem:
            problems.append(Failure(f"{Path(given)} can't be read: {problem.finding.fact}"))
    return images, problems


def _named_by(table: str, column: ImageColumn, layout: Layout, root: Path | None) -> dict[str, str | bytes]:
    """The images of a table; a Failure where there are none, or where their paths don't seem to start here."""
    file = Path(table)
    images: dict[str, str | bytes] = {}
    for place, cells in rows_of(file, column.columns, layout, "name the one with the images by `--image`"):
        image = column.read(place, cells)
        if isinstance(image, Embedded):
            images[image.name or place] = image.content
        else:
            path = str((root or file.parent) / image)
            images[path] = path
    if not images:
        raise Failure(f"{table} has no rows")
    first = next(iter(images.values()))
    if isinstance(first, str) and not any(isinstance(path, str) and os.path.exists(path) for path in images.values()):
        raise Failure(f"{table} names {first}, which does not exist", "say where its paths start by `--root`")
    return images
