"""Images with annotated objects in COCO's, Pascal VOC's or YOLO's format, or with masks; `sources` decides how these
are read."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leaven.runtime.data.datasets import Dataset, Place, opened, place
from leaven.runtime.failures import Failure
from leaven.sources.coco import Coco
from leaven.sources.formats_of_boxes import source_in
from leaven.sources.mask_folder import MaskFolder
from leaven.sources.source import OnBadFile
from leaven.sources.voc import Voc
from leaven.sources.yolo import Yolo
from leaven.tasks.segmentation.target import MaskClasses


def coco(
    images: Place,
    annotations: Place | None = None,
    *,
    val: Place | None = None,
    test: Place | None = None,
    masks: bool = False,
    on_bad_file: OnBadFile = "stop",
) -> Dataset:
    """Images with annotations in COCO's format: of all of them, of training and `val`, or in a folder."""
    return opened(Coco(*place(images), _path(annotations), _path(val), _path(test), masks, on_bad_file))


def voc(path: Place, *, on_bad_file: OnBadFile = "stop") -> Dataset:
    """Images with an XML file each, as Pascal VOC has them."""
    return opened(Voc(*place(path), on_bad_file))


def yolo(
    path: Place,
    *,
    labels: Place | None = None,
    names: Place | None = None,
    masks: bool = False,
    on_bad_file: OnBadFile = "stop",
) -> Dataset:
    """Images with a text file each, as YOLO reads them."""
    return opened(Yolo(*place(path), _path(labels), _path(names), masks, on_bad_file))


def mask_folder(
    path: Place, *, classes: Sequence[str] | Place | None = None, ignore: int = 255, on_bad_file: OnBadFile = "stop"
) -> Dataset:
    """The images in `images/` with their masks in `masks/`, optionally inside of `train/`, `val/` and `test/`.

    The classes are named by a list in the order of their numbers, or by a file, `classes.txt`.
    """
    named = Path(classes) if isinstance(classes, str | os.PathLike) else classes
    return opened(MaskFolder(*place(path), named, ignore, on_bad_file=on_bad_file))


def masks_of(path: Path, target: MaskClasses) -> Dataset:
    """A folder of images and masks with the classes of a model."""
    return opened(MaskFolder(*place(path), known=target))


def _path(given: Place | None) -> Path | None:
    return Path(given) if given is not None else None


def annotated_folder(path: Path, parts: str = "") -> Dataset:
    """The annotated images of a folder, in whichever format they are; also the `parts` of objects, such as masks."""
    source = source_in(*place(path))
    if source is None:
        help = "it needs COCO's annotations (.json), Pascal VOC's (.xml) or YOLO's (labels/)"
        raise Failure(f"{path} has no annotations of objects", help)
    if parts and parts not in source._fields:
        raise Failure(
            f"{path} has annotations of boxes, and no {parts}", f"use annotations with {parts}, such as COCO's"
        )
    wanted: dict[str, Any] = {parts: True} if parts else {}
    return opened(source._replace(**wanted))
