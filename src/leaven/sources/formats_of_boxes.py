"""Which format the annotations in a folder have, by the files that are there."""

from pathlib import Path

from leaven.formats.image_folder import IMAGE_ENDINGS, sub_folders
from leaven.sources.coco import Coco, files_of_splits
from leaven.sources.voc import Voc
from leaven.sources.yolo import NAMES, Yolo

_BLOCK = 1 << 16  # bytes of a JSON file that are looked at, at each of its ends
_MOST = 20  # such files
_LABELS = ("labels", "labels/train", "labels/train2017", "train/labels")  # of YOLO
_XML = ("annotations", "annotation", "xml", "xmls", "labels", "train")  # the folders of VOC's, in any case


def source_in(path: Path, name: str) -> Coco | Voc | Yolo | None:
    """The annotated images in a folder, or of a file of COCO's annotations in it; None where it has none of objects."""
    if path.suffix == ".json" and path.is_file():
        beside = [folder for folder in (path.parent, path.parent.parent) if (folder / "images").is_dir()]
        around = path.parent.parent if path.parent.name.lower() == "annotations" else path.parent
        return Coco(beside[0] / "images" if beside else around, name, path)
    folders = [folder for folder in (path / "annotations", path) if folder.is_dir()]
    where = next((folder for folder in folders if any(map(names_images, sorted(folder.glob("*.json"))[:_MOST]))), None)
    if where is not None:
        images = path / "images" if (path / "images").is_dir() else path
        return Coco(images, name, where)
    if any(names_images(file) for file in files_of_splits(path).values()):
        return Coco(path, name)
    if any(_has(each, "*.xml") for each in (path, *_inside(path, _XML))):
        return Voc(path, name)
    is_named = any((path / each).is_file() for each in (*NAMES, "labels/classes.txt"))
    has_labels = any(_has(path / each, "*.txt") for each in _LABELS)
    files = (file for folder in (path, *_inside(path)) for file in folder.iterdir())
    pictures = (file for file in files if file.suffix.lower() in IMAGE_ENDINGS)
    are_beside = is_named and any(file.with_suffix(".txt").is_file() for file in pictures)
    if are_beside or (has_labels and (is_named or (path / "images").is_dir())):
        return Yolo(path, name)  # it says where the names are missing
    return None


def _inside(path: Path, names: tuple[str, ...] = ()) -> list[Path]:
    """The folders in a folder, or those of these names."""
    there = (path / name for name in sub_folders(path)) if path.is_dir() else ()
    return [folder for folder in there if not names or folder.name.lower() in names]


def _has(folder: Path, pattern: str) -> bool:
    return folder.is_dir() and next(folder.glob(pattern), None) is not None


def names_images(file: Path) -> bool:
    """Whether a JSON file has annotations of images, as far as its beginning or end tells."""
    try:
        with file.open("rb") as stream:
            head = stream.read(_BLOCK)
            stream.seek(max(0, file.stat().st_size - _BLOCK))
            ends = head + stream.read(_BLOCK)
            return any(word in ends for word in (b'"images"', b'"file_name"', b'"bbox"'))
    except OSError:
        return False
