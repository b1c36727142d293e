"""Images with annotated objects in COCO's, Pascal VOC's or YOLO's format; `sources` decides how these are read."""

import os
from pathlib import Path

from leaven.runtime.data.datasets import Dataset, opened
from leaven.runtime.failures import Failure
from leaven.sources.annotations import OnBadFile
from leaven.sources.coco import Coco
from leaven.sources.formats_of_boxes import source_in
from leaven.sources.voc import Voc
from leaven.sources.yolo import Yolo

Place = str | os.PathLike[str]


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
    folder = Path(images)
    return opened(Coco(folder, folder.as_posix(), _path(annotations), _path(val), _path(test), masks, on_bad_file))


def voc(path: Place, *, on_bad_file: OnBadFile = "stop") -> Dataset:
    """Images with an XML file each, as Pascal VOC has them."""
    folder = Path(path)
    return opened(Voc(folder, folder.as_posix(), on_bad_file))


def yolo(
    path: Place,
    *,
    labels: Place | None = None,
    names: Place | None = None,
    masks: bool = False,
    on_bad_file: OnBadFile = "stop",
) -> Dataset:
    """Images with a text file each, as YOLO reads them."""
    folder = Path(path)
    return opened(Yolo(folder, folder.as_posix(), _path(labels), _path(names), masks, on_bad_file))


def _path(place: Place | None) -> Path | None:
    return Path(place) if place is not None else None


def annotated_folder(path: Path, *, has_masks: bool) -> Dataset:
    """The annotated images of a folder, in whichever format they are."""
    source = source_in(path, path.as_posix(), has_masks=has_masks)
    if source is None:
        help = "it needs COCO's annotations (.json), Pascal VOC's (.xml) or YOLO's (labels/)"
        raise Failure(f"{path} has no annotations of objects", help)
    if has_masks and isinstance(source, Voc):
        help = "use COCO's annotations, or YOLO's polygons"
        raise Failure(f"{path} has boxes in Pascal VOC's format, and no masks", help)
    return opened(source)
