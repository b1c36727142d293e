"""Annotations in Pascal VOC's format: an XML file per image."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from leaven.sources.annotations import Image, ImageIndex, Problems, Read, annotations_at, named_split, several
from leaven.sources.name_files import unreadable
from leaven.sources.source import OnBadFile, Samples, SourceFacts, returns_findings
from leaven.tasks.classification.target import in_order
from leaven.tasks.detection.target import Box, Object

_LISTS = Path("ImageSets") / "Main"
_PHOTOS = "JPEGImages"
MOST_LOOKED = 20_000  # files: a look at more takes too long
_LARGEST = 10_000_000  # bytes of an annotation
_BOX = ("xmin", "ymin", "xmax", "ymax")


class _Marked(NamedTuple):
    category: str
    box: Box
    is_difficult: bool


class Voc(NamedTuple):
    """A folder with XML files in `Annotations/`, or beside the images; `ImageSets/Main/train.txt` lists a split."""

    path: Path
    name: str
    on_bad_file: OnBadFile = "stop"

    @returns_findings
    def look(self) -> SourceFacts:
        files, problems = self._files(), Problems(self.name, self.on_bad_file)
        splits = self._splits(files, problems)
        if len(files) > MOST_LOOKED:
            return SourceFacts((), tuple(filter(None, splits)))
        return self._read(splits, problems).facts()

    def open(self) -> Samples:
        problems = Problems(self.name, self.on_bad_file)
        return self._read(self._splits(self._files(), problems), problems).samples()

    def _files(self) -> list[Path]:
        """The annotations."""
        help = "use the folder that contains `Annotations` and `JPEGImages`"
        annotations_at().check_folder(self.path, self.name, help)
        folder = self.path / "Annotations"
        files = sorted((folder if folder.is_dir() else self.path).rglob("*.xml"))
        if not files:
            fact = f"`{self.name}` has no annotations: no XML files are in it"
            raise annotations_at().error("missing-file", fact)
        return files

    def _splits(self, files: Sequence[Path], problems: Problems) -> dict[str, Sequence[Path]]:
        """The files of each split, by lists or by folders; without these, all of them."""
        lists = {name: self.path / _LISTS / f"{name}.txt" for name in ("train", "val", "test", "trainval")}
        named = {file.stem: file for file in files}
        listed = {name: self._listed(file, named, problems) for name, file in lists.items() if file.is_file()}
        if "train" not in listed and "trainval" in listed:
            listed["train"] = listed["trainval"]
        if not listed.get("train"):
            in_folders = self._in_folders(files)
            return in_folders if in_folders.get("train") else {"": files}
        return {name: listed[name] for name in ("train", "val", "test") if listed.get(name)}

    def _in_folders(self, files: Sequence[Path]) -> dict[str, Sequence[Path]]:
        """The files by the split that the first folder of their path names; empty where one names none."""
        splits = {file: named_split((file.relative_to(self.path).parent.parts or ("",))[0]) for file in files}
        if not all(splits.values()):
            return {}
        by_split = {name: [file for file in files if splits[file] == name] for name in ("train", "val", "test")}
        return {name: found for name, found in by_split.items() if found}

    def _listed(self, file: Path, files: dict[str, Path], problems: Problems) -> list[Path]:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.split()[0] for line in lines if line.split()]
        if file.stem in ("train", "val"):  # the annotations for testing are often not published
            for name in names:
                if name not in files:
                    problems.add(
                        f"`{name}`, which `{file.name}` lists, has no annotations", id="missing-file", noun="image"
                    )
        return [files[name] for name in names if name in files]

    def _read(self, splits: dict[str, Sequence[Path]], problems: Problems) -> Read:
        index = ImageIndex(self.path)
        marked = {split: list(self._images(files, split, index, problems)) for split, files in splits.items()}
        every = (one for images in marked.values() for _, found in images for one in found)
        names = tuple(in_order({one.category for one in every}))
        order = {name: at for at, name in enumerate(names)}
        images = {
            split: [
                Image(file, tuple(Object(order[one.category], one.box, is_crowd=one.is_difficult) for one in found))
                for file, found in there
            ]
            for split, there in marked.items()
        }
        return Read(names, images, problems)

    def _images(
        self, files: Sequence[Path], split: str, index: ImageIndex, problems: Problems
    ) -> Iterator[tuple[str, list[_Marked]]]:
        for file in files:
            place = f"`{os.path.relpath(file, self.path)}`"
            try:
                tree = _parsed(file)
            except (ElementTree.ParseError, OSError, ValueError) as problem:
                problems.add(f"{place} can't be read: {unreadable(problem)}", id="wrong-format", noun="image")
                continue
            name = (tree.findtext("filename") or "").strip()
            match _image_of(file, name, split, index):
                case [image]:
                    yield image, list(_objects(tree, place, problems))
                case []:
                    fact = f"the image of {place}, `{name or file.stem}`, is not there"
                    problems.add(fact, "add the image", id="missing-file", noun="image")
                case more:
                    fact, help = several(name or file.stem, more, self.path)
                    problems.add(f"the image of {place}, {fact}", help, noun="image")


def _image_of(file: Path, name: str, split: str, index: ImageIndex) -> list[str]:
    """The images that annotations may be of: by the name of their file, or by the name in it, which is often older."""
    by_stem = index.named(file.stem, file, split)
    by_name = index.find(name, file, split) if name else []
    photos = [path for path in by_stem if _PHOTOS in Path(path).parts]  # others of that name are their masks
    return next((found for found in (by_stem, by_name, photos) if len(found) == 1), by_stem or by_name)


def _parsed(file: Path) -> ElementTree.Element:
    """The tree of a file. One that declares entities is refused: they could expand without an end."""
    content = file.read_bytes()
    if len(content) > _LARGEST:
        raise ValueError("it is larger than an annotation can be")
    if b"<!ENTITY" in content or b"<!DOCTYPE" in content:
        raise ValueError("it declares a document type")
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError:
        if not content.startswith(b"<?xml"):  # it does not tell its encoding
            content.decode("utf-8-sig")
        raise


def _objects(tree: ElementTree.Element, place: str, problems: Problems) -> Iterator[_Marked]:
    size = _size(tree)
    for at, one in enumerate(tree.iter("object"), 1):
        where = f"object {at} of {place}"
        category, box = (one.findtext("name") or "").strip(), one.find("bndbox")
        if not category:
            problems.add(f"{where} has no name")
            continue
        try:
            assert box is not None
            left, top, right, bottom = (float(box.findtext(edge) or "") for edge in _BOX)
        except (AssertionError, ValueError):
            problems.add(f"{where} has no box: `bndbox` with {', '.join(_BOX)}")
            continue
        # the first pixel is 1, and both edges belong to the box
        kept = problems.box((left - 1, top - 1, right, bottom), size, where)
        if kept is not None:
            yield _Marked(category, kept, (one.findtext("difficult") or "0").strip() == "1")


def _size(tree: ElementTree.Element) -> tuple[float, float] | None:
    try:
        width, height = (float(tree.findtext(f"size/{edge}") or "0") for edge in ("width", "height"))
    except ValueError:
        return None
    return (width, height) if width > 0 and height > 0 else None
