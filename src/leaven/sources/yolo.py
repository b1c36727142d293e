"""Annotations as YOLO reads them: a text file per image, with a line per object: `class x y width height`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leaven.formats.image_folder import IMAGE_ENDINGS
from leaven.sources.annotations import Image, Problems, Read, annotations_at, as_text, named_split
from leaven.sources.name_files import read_lines, unreadable
from leaven.sources.source import OnBadFile, Samples, SourceFacts, returns_findings
from leaven.tasks.detection.target import Categories, Object
from leaven.tasks.instances.target import MaskedCategories

MOST_LOOKED = 20_000  # images: a look at more takes too long
NAMES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names", "names.txt")


class Yolo(NamedTuple):
    """A folder with `images/` and `labels/`, alike inside; its names are in `data.yaml` or `classes.txt`."""

    path: Path
    name: str
    labels: Path | None = None
    names: Path | None = None
    masks: bool | None = None
    on_bad_file: OnBadFile = "stop"

    @returns_findings
    def look(self) -> SourceFacts:
        splits = self._splits()
        if sum(map(len, splits.values())) > MOST_LOOKED:
            return SourceFacts(self._names(), tuple(filter(None, splits)))
        return self._read(splits).facts()

    def open(self) -> Samples:
        return self._read(self._splits()).samples(MaskedCategories if self.masks else Categories)

    # -- which files

    def _splits(self) -> dict[str, list[str]]:
        """The images of each split, which folders of their names hold; or all of them."""
        annotations_at().check_folder(self.path, self.name, "use the folder that contains `images` and `labels`")
        top = self.path / "images" if (self.path / "images").is_dir() else self.path
        inside = sorted(one for one in os.listdir(top) if (top / one).is_dir())
        named = {named_split(one): top / one for one in reversed(inside) if named_split(one)}
        if "train" not in named:
            splits = {"": _images(top)}
        else:
            splits = {split: _images(named[split]) for split in ("train", "val", "test") if split in named}
        if not any(splits.values()):
            raise annotations_at().error("missing-file", f"`{self.name}` has no images")
        return splits

    def _labels_of(self, image: str) -> str:
        """Where the objects of an image are: in `labels/` instead of `images/`, or beside it."""
        stem = os.path.splitext(image)[0] + ".txt"
        if self.labels is not None:
            top = self.path / "images" if (self.path / "images").is_dir() else self.path
            return os.path.join(self.labels, os.path.relpath(stem, top))
        before, found, after = stem.rpartition(f"{os.sep}images{os.sep}")
        return os.path.join(before, "labels", after) if found else stem

    def _names(self) -> tuple[str, ...]:
        """The names of the categories."""
        places = [self.path / name for name in (*NAMES, "labels/classes.txt")] if self.names is None else [self.names]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            fact = f"`{self.name}` does not tell what its categories are called"
            help = "write them into `classes.txt` in that folder, one per line, or name a file: `names=`"
            raise annotations_at().error("missing-file", fact, help)
        try:
            names = _from_yaml(file) if file.suffix in (".yaml", ".yml") else tuple(read_lines(file))
        except (OSError, ValueError) as problem:
            fact = f"`{file.name}` can't be read: {unreadable(problem)}"
            raise annotations_at().error("wrong-format", fact) from None
        if not names or len(set(names)) < len(names):
            wrong = "has a name twice" if names else "has no names"
            raise annotations_at().error("wrong-format", f"`{file.name}` {wrong}")
        return names

    # -- what is in them

    def _read(self, splits: Mapping[str, Sequence[str]]) -> Read:
        names = self._names()
        problems = Problems(self.name, self.on_bad_file)
        found = {split: (self._image(each, names, problems) for each in images) for split, images in splits.items()}
        kept = {split: [image for image in images if image is not None] for split, images in found.items()}
        read = Read(names, kept, problems, is_relative=True)
        self._check_orphans(splits, problems)
        if not read.has_objects and not problems.found:
            fact = f"none of the images of `{self.name}` has labels"
            raise annotations_at().error("missing-file", fact, "say where they are: `labels=`")
        return read

    def _check_orphans(self, splits: Mapping[str, Sequence[str]], problems: Problems) -> None:
        """Labels whose image is not there."""
        known = {self._labels_of(image) for images in splits.values() for image in images}
        for folder in sorted({os.path.dirname(file) for file in known}):
            for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                place = os.path.join(folder, file)
                if file.endswith(".txt") and place not in known and file not in NAMES and file != "readme.txt":
                    fact = f"the image of `{self._shown(place)}` is not there"
                    problems.add(fact, "add the image", id="missing-file", noun="label file")

    def _shown(self, file: str) -> str:
        return os.path.relpath(file, self.path if self.labels is None else self.labels.parent)

    def _image(self, image: str, names: Sequence[str], problems: Problems) -> Image | None:
        """An image with its objects. One without a file of labels shows none; None where that can't be read."""
        file = self._labels_of(image)
        place = f"`{self._shown(file)}`"
        try:
            with open(file, encoding="utf-8-sig") as stream:
                lines = stream.read().splitlines()
        except FileNotFoundError:
            lines = []
        except (OSError, ValueError) as problem:
            problems.add(f"{place} can't be read: {unreadable(problem)}", id="wrong-format", noun="image")
            return None
        objects = [
            found
            for at, line in enumerate(lines, 1)
            if line.strip() and (found := self._object(line, f"line {at} of {place}", names, problems)) is not None
        ]
        return Image(image, tuple(objects))

    def _object(self, line: str, place: str, names: Sequence[str], problems: Problems) -> Object | None:
        try:
            first, *rest = line.split()
            category, numbers = int(first), [float(each) for each in rest]
        except ValueError:
            problems.add(f"{place} is not a class and numbers: `{as_text(line)}`")
            return None
        if not 0 <= category < len(names):
            help = f"the classes with a name are 0 to {len(names) - 1}" if len(names) > 1 else "only class 0 has a name"
            problems.add(f"{place} has the class {category}, which has no name", help)
            return None
        is_polygon = len(numbers) >= 6 and len(numbers) % 2 == 0
        if len(numbers) != 4 and not is_polygon:
            fact = f"{place} has {len(numbers)} numbers after the class"
            problems.add(fact, "a box has 4 (x, y, width, height), a polygon an even number from 6 on")
            return None
        if self.masks and not is_polygon:
            problems.add(f"{place} has a box and no polygon", "without `masks=true`, boxes are enough")
            return None
        if is_polygon:
            edges = min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])
        else:
            x, y, width, height = numbers
            edges = x - width / 2, y - height / 2, x + width / 2, y + height / 2
        help = "places are relative to the width and height of the image, from 0 to 1" if max(numbers) > 2 else ""
        box = problems.box(edges, (1.0, 1.0), place, help)
        return None if box is None else Object(category, box, (tuple(numbers),) if self.masks else None)


def _images(folder: Path) -> list[str]:
    images: list[str] = []
    for place, inside, files in os.walk(folder):
        inside.sort()
        images += [os.path.join(place, each) for each in sorted(files) if each.lower().endswith(IMAGE_ENDINGS)]
    return images


def _from_yaml(file: Path) -> tuple[str, ...]:
    """The names in YOLO's `data.yaml`: a list, or a mapping from numbers. It is read as plain data."""
    import yaml  # type: ignore[import-untyped, unused-ignore]

    try:
        content: Any = yaml.safe_load(file.read_text("utf-8-sig"))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f"line {mark.line + 1} " if mark is not None else "it "
        raise ValueError(f"{where}is not YAML that is plain data, such as `names: [car, person]`") from None
    names = content.get("names") if isinstance(content, dict) else None
    if isinstance(names, dict) and names.keys() == set(range(len(names))):
        names = [names[at] for at in range(len(names))]
    if not isinstance(names, list):
        raise ValueError("it has no list of `names`, counted from 0")
    return tuple(map(str, names))
