"""Which format the annotations in a folder have, by the files that are there."""

from pathlib import Path

from leaven.sources.coco import Coco
from leaven.sources.voc import Voc
from leaven.sources.yolo import NAMES, Yolo


def source_in(path: Path, name: str, *, has_masks: bool = False) -> Coco | Voc | Yolo | None:
    """The annotated images in a folder, or of a file of COCO's annotations in it; None where it has none of objects."""
    if path.suffix == ".json" and path.is_file():
        beside = [folder for folder in (path.parent, path.parent.parent) if (folder / "images").is_dir()]
        return Coco(beside[0] / "images" if beside else path.parent, name, path, masks=has_masks)
    where = next((each for each in (path / "annotations", path) if _has(each, "*.json")), None)
    if where is not None:
        images = path / "images" if (path / "images").is_dir() else path
        return Coco(images, name, where, masks=has_masks)
    if _has(path / "Annotations", "*.xml") or _has(path, "*.xml"):
        return Voc(path, name)
    if (path / "labels").is_dir() and any((path / each).is_file() for each in (*NAMES, "labels/classes.txt")):
        return Yolo(path, name, masks=has_masks)
    return None


def _has(folder: Path, pattern: str) -> bool:
    return folder.is_dir() and next(folder.glob(pattern), None) is not None
