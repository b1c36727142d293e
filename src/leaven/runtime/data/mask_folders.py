"""Folders of images with masks; `sources/mask_folder.py` decides how these are read."""

import os
from collections.abc import Sequence
from pathlib import Path

from leaven.runtime.data.datasets import Dataset, opened
from leaven.sources.annotations import OnBadFile
from leaven.sources.mask_folder import MaskFolder
from leaven.tasks.segmentation.target import MaskClasses


def mask_folder(
    path: str | os.PathLike[str],
    *,
    classes: Sequence[str] | str | os.PathLike[str] | None = None,
    ignore: int = 255,
    on_bad_file: OnBadFile = "stop",
) -> Dataset:
    """The images in `images/` with their masks in `masks/`, optionally inside of `train/`, `val/` and `test/`.

    The classes are named by a list in the order of their numbers, or by a file, `classes.txt`.
    """
    named = classes if classes is None or not isinstance(classes, str | os.PathLike) else Path(classes)
    return opened(MaskFolder(Path(path), Path(path).as_posix(), named, ignore, on_bad_file=on_bad_file))


def masks_of(path: Path, target: MaskClasses) -> Dataset:
    """A folder of images and masks with the classes of a model."""
    return opened(MaskFolder(path, path.as_posix(), known=target))
