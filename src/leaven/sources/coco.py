"""Annotations in COCO's format: a JSON file with images, categories and annotations, or one per split."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from leaven.formats.finding import About
from leaven.sources.annotations import (
    LARGEST_LOOK,
    Image,
    ImageIndex,
    Problems,
    Read,
    annotations_at,
    as_text,
    named_split,
    several,
)
from leaven.sources.name_files import unreadable
from leaven.sources.source import OnBadFile, Samples, SourceFacts, returns_findings
from leaven.tasks.detection.target import Categories, Object
from leaven.tasks.instances.target import MaskedCategories

_PARTS = ("images", "annotations", "categories")


class Coco(NamedTuple):
    """A folder of images, and a file of annotations; or a folder of such files, whose names tell the splits."""

    path: Path
    name: str
    annotations: Path | None = None
    val: Path | None = None
    test: Path | None = None
    masks: bool | None = None
    on_bad_file: OnBadFile = "stop"

    @returns_findings
    def look(self) -> SourceFacts:
        files = self._files()
        if sum(os.path.getsize(file) for file in files.values()) > LARGEST_LOOK:
            return SourceFacts((), tuple(filter(None, files)))
        return self._read(files).facts()

    def open(self) -> Samples:
        return self._read(self._files()).samples(MaskedCategories if self.masks else Categories)

    def _files(self) -> dict[str, Path]:
        """The file of each split; a single one has all of the data."""
        annotations_at().check_folder(self.path, self.name, "use the folder that contains the images")
        annotations = self.annotations
        if annotations is None or annotations.is_dir():
            files = self._found(annotations)
        else:
            files = {"train" if self.val or self.test else "": annotations}
        files |= {split: file for split, file in (("val", self.val), ("test", self.test)) if file is not None}
        for split, file in files.items():
            if not file.is_file():
                raise self._at(split).error("missing-file", f"`{file.name}` does not exist")
        return files

    def _found(self, given: Path | None) -> dict[str, Path]:
        """The files of a folder, by the splits that their names tell."""
        folders = (
            [given] if given is not None else [self.path / "annotations", self.path, self.path.parent / "annotations"]
        )
        if (of_splits := files_of_splits(given or self.path)) and not any(any(each.glob("*.json")) for each in folders):
            return of_splits
        for folder in folders:
            found = sorted(folder.glob("*.json"))
            instances = [file for file in found if file.name.startswith("instances")] or found
            if len(instances) == 1:
                return {"": instances[0]}
            if by_split := _one_of_each((named_split(file.name), file) for file in instances):
                return by_split
            if instances:
                names = ", ".join(f"`{file.name}`" for file in instances[:3])
                fact = f"it is not clear which annotations to use: {names}"
                help = "name one: `annotations=`" if given is None else f"name one: `{folder.name}/{found[0].name}`"
                raise self._at().error("missing-file", fact, help)
        raise self._at().error("missing-file", f"`{self.name}` has no annotations", "name the file: `annotations=`")

    def _read(self, files: Mapping[str, Path]) -> Read:
        index = ImageIndex(self.path)
        named = self.name if self.annotations is None else self.annotations.name
        problems = Problems(named, self.on_bad_file, self._argument(""))
        contents = {split: self._content(file, split) for split, file in files.items()}
        ids = self._same_categories(files, contents)
        order = {id: at for at, (id, _) in enumerate(ids)}
        splits = {}
        for split, content in contents.items():
            problems.argument = self._argument(split)
            splits[split] = _Reader(files[split], split, order, index, problems, bool(self.masks)).images(content)
        self._check_shared(files, splits)
        problems.argument = self._argument("")
        return Read(tuple(name for _, name in ids), splits, problems)

    def _check_shared(self, files: Mapping[str, Path], splits: Mapping[str, Sequence[Image]]) -> None:
        """Refuse an image of training in another split that has one of that name beside its annotations."""
        trained = {os.path.basename(image.file): image.file for image in splits.get("train", ())}
        for split in splits.keys() - {"train"}:
            for image in splits[split]:
                own = files[split].parent / os.path.basename(image.file)
                if not (own.name in trained and own.is_file()):
                    continue
                real = os.path.realpath(image.file)
                if real == os.path.realpath(trained[own.name]) != os.path.realpath(own):
                    fact = f"`{own.name}` is taken from `{self.path.name}`, which has the images of training"
                    help = "name the folder that contains the images of all splits, as the first argument"
                    raise self._at(split).error("wrong-annotation", fact, help)

    def _content(self, file: Path, split: str) -> Mapping[str, Any]:
        try:
            with open(file, encoding="utf-8-sig") as stream:
                content = json.load(stream)
        except (OSError, ValueError, RecursionError) as problem:
            fact = f"`{file.name}` can't be read: {unreadable(problem)}"
            raise self._at(split).error("wrong-format", fact) from None
        for part in _PARTS:
            if not isinstance(content, dict) or not isinstance(content.get(part), list):
                help = "COCO's format has lists of `images`, `annotations` and `categories`"
                raise self._at(split).error("wrong-format", f"`{file.name}` has no list of `{part}`", help)
        found: dict[str, Any] = content
        return found

    def _same_categories(
        self, files: Mapping[str, Path], contents: Mapping[str, Mapping[str, Any]]
    ) -> Sequence[tuple[int, str]]:
        """The categories of all files. Those of the first count: another file may have fewer, but none of its own."""
        first, *others = files
        ids = self._categories(contents[first], files[first].name)
        for split in others:
            for id, name in self._categories(contents[split], files[split].name):
                if (id, name) not in ids:
                    there = next((f"`{named}`" for known, named in ids if known == id), "not a category")
                    fact = f"in `{files[split].name}`, the category {id} is `{name}`; in `{files[first].name}`, {there}"
                    help = "use the same ids and names of categories in every file"
                    raise self._at(split).error("wrong-annotation", fact, help)
        return ids

    def _categories(self, content: Mapping[str, Any], file: str) -> Sequence[tuple[int, str]]:
        """The ids and names of the categories, by id."""
        names: dict[int, str] = {}
        for at, one in enumerate(content["categories"], 1):
            match one:
                case {"id": int(id), "name": str(name)} if id not in names and name and name not in names.values():
                    names[id] = name
                case _:
                    fact = f"category {at} of `{file}` has no `id` and `name` of its own"
                    raise self._at().error("wrong-format", fact)
        if not names:
            raise self._at().error("wrong-format", f"`{file}` has no categories")
        return sorted(names.items())

    def _at(self, split: str = "") -> About:
        return annotations_at(self._argument(split))

    def _argument(self, split: str) -> str:
        """The argument that names the annotations of a split."""
        if (split == "val" and self.val) or (split == "test" and self.test):
            return split
        return "annotations" if self.annotations is not None else "images"


def files_of_splits(folder: Path) -> dict[str, Path]:
    """`train/_annotations.coco.json`, `valid/…`: the file of each split in a folder of its own; empty otherwise."""
    files = sorted(folder.glob("*/*.json"))
    return _one_of_each((split, file) for file in files if (split := named_split(file.parent.name)))


def _one_of_each(named: Iterable[tuple[str, Path]]) -> dict[str, Path]:
    """The file of each split; empty where a split has several, or there is none to train with."""
    by_split: dict[str, list[Path]] = {}
    for split, file in named:
        by_split.setdefault(split, []).append(file)
    if "train" not in by_split or any(len(files) > 1 for files in by_split.values()):
        return {}
    return {split: by_split[split][0] for split in ("train", "val", "test") if split in by_split}


def _is_polygon(given: Any) -> bool:
    is_even = isinstance(given, list) and len(given) >= 6 and len(given) % 2 == 0
    return is_even and all(isinstance(number, int | float) for number in given)


@dataclass(frozen=True)
class _Reader:
    """Reads the images of a file; `order` has the indices of the categories by their ids."""

    place: Path
    split: str
    order: Mapping[Any, int]
    index: ImageIndex
    problems: Problems
    has_masks: bool

    @property
    def file(self) -> str:
        return self.place.name

    def images(self, content: Mapping[str, Any]) -> list[Image]:
        sizes: dict[Any, tuple[str, Any]] = {}
        for at, one in enumerate(content["images"], 1):
            match one:
                case {"id": int() | str() as id, "file_name": str()} if id in sizes:
                    self.problems.add(
                        f"image {at} of `{self.file}` has the id {as_text(id)}, as one before it", noun="image"
                    )
                case {"id": int() | str() as id, "file_name": str(name), **rest}:
                    sides = [side for key in ("width", "height") if isinstance(side := rest.get(key), int | float)]
                    sizes[id] = self._found(name, at), (float(sides[0]), float(sides[1])) if len(sides) == 2 else None
                case _:
                    fact = f"image {at} of `{self.file}` has no `id` and `file_name`"
                    self.problems.add(fact, id="wrong-format", noun="image")
        objects: dict[Any, list[Object]] = {id: [] for id in sizes}
        for at, one in enumerate(content["annotations"], 1):
            self._add(one, f"annotation {at} of `{self.file}`", sizes, objects)
        return [Image(file, tuple(objects[id])) for id, (file, _) in sizes.items() if file]

    def _found(self, name: str, at: int) -> str:
        """The path of an image; empty where that is not known, which is a problem."""
        match self.index.find(name, self.place, self.split):
            case [path]:
                return path
            case []:
                fact = f"`{name}`, image {at} of `{self.file}`, is not in `{self.index.folder.name}`"
                self.problems.add(fact, "say where the images are", id="missing-file", noun="image")
            case more:
                fact, help = several(name, more, self.index.folder)
                self.problems.add(f"image {at} of `{self.file}`, {fact}", help, noun="image")
        return ""

    def _add(self, one: Any, place: str, sizes: Mapping[Any, Any], objects: Mapping[Any, list[Object]]) -> None:
        match one:
            case {
                "image_id": int() | str() as id,
                "category_id": int() | str() as category,
                "bbox": [left, top, width, height],
                **rest,
            }:
                if id not in sizes:
                    self.problems.add(f"{place} is of image {as_text(id)}, which is not among the images")
                elif category not in self.order:
                    ids = ", ".join(map(str, list(self.order)[:8]))
                    help = f"the ids of the categories are {ids}{', …' * (len(self.order) > 8)}"
                    self.problems.add(f"{place} has the category id {as_text(category)}, which no category has", help)
                elif not all(isinstance(n, int | float) for n in (left, top, width, height)):
                    self.problems.add(f"{place} has a `bbox` that is not four numbers")
                else:
                    edges = float(left), float(top), float(left + width), float(top + height)
                    box = self.problems.box(edges, sizes[id][1], place)
                    is_crowd = bool(rest.get("iscrowd", 0))
                    mask = self._mask(rest, place) if self.has_masks and box is not None else None
                    if box is not None and (mask is not None or not self.has_masks):
                        objects[id].append(Object(self.order[category], box, mask, is_crowd))
            case _:
                self.problems.add(f"{place} has no `image_id`, `category_id` and `bbox` of four numbers")

    def _mask(self, given: Mapping[Any, Any], place: str) -> Any:
        """Polygons as tuples of numbers, or (height, width, counts) of a run-length encoding."""
        match given.get("segmentation"):
            case [_, *_] as polygons if all(_is_polygon(polygon) for polygon in polygons):
                return tuple(tuple(map(float, polygon)) for polygon in polygons)
            case {"counts": [*counts], "size": [int(height), int(width)]} if (
                all(type(count) is int and count >= 0 for count in counts) and sum(counts) == height * width
            ):
                return height, width, tuple(counts)
            case {"counts": str(counts), "size": [int(height), int(width)]}:
                return height, width, counts
            case {"counts": _}:
                self.problems.add(f"{place} has a mask whose run lengths do not add up to its `size`")
                return None
        self.problems.add(f"{place} has no mask (`segmentation`)", "without `masks=true`, boxes are enough")
        return None
