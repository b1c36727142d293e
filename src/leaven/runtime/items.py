"""Pictures with labels: data sets as lists of items that are loaded one at a time.

Decides how the items of a folder, a table and scikit-learn's digits are found; sets that come as Python objects are in
`sets.py`. Which item belongs to which part is decided in `parts.py`, in which order and with which steps they are read
in `batches.py`.
"""

import csv
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from leaven.runtime.failures import Failure
from leaven.runtime.pictures import open_picture

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
PART_NAMES = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}
TABLE_ENDINGS = (".csv", ".tsv")
_DROPPINGS = ("__MACOSX",)  # what packing programs leave behind


@dataclass(frozen=True)
class Items:
    """Every item of a data set. `given` holds the parts that it comes with, as places in the list.

    Where `labels` is None, only loading an item tells its label: `load` then gives the pair of picture and label.
    All of it can be sent to another process.
    """

    classes: tuple[str, ...]
    labels: Sequence[int] | None
    size: int
    load: Callable[[int], Any]
    name: Callable[[int], str]
    given: Mapping[str, Sequence[int]] = field(default_factory=dict)
    in_memory: bool = False

    def __len__(self) -> int:
        return self.size


# -- digits


def digits() -> Items:
    """scikit-learn's 1,797 handwritten digits, 8 by 8 pixels, one grey channel."""
    from sklearn.datasets import load_digits  # takes a second, and few programs need it

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels = [int(label) for label in bunch.target]
    classes = tuple(str(name) for name in bunch.target_names)
    return Items(classes, labels, len(labels), _Grey(pixels), _Numbered("digit"), in_memory=True)


@dataclass(frozen=True)
class _Grey:
    """Grey pictures that are kept as one array."""

    pixels: np.ndarray

    def __call__(self, index: int) -> Image.Image:
        return Image.fromarray(self.pixels[index])


@dataclass(frozen=True)
class _Numbered:
    """Names for what has none."""

    noun: str

    def __call__(self, index: int) -> str:
        return f"{self.noun} {index}"


@dataclass(frozen=True)
class PictureFiles:
    """Opens picture files by their place in a list."""

    files: Sequence[str]
    mode: str = "RGB"

    def __call__(self, index: int) -> Image.Image:
        return open_picture(self.files[index], self.mode)

    def name(self, index: int) -> str:
        return self.files[index]


# -- folders


def image_folder(path: str | os.PathLike[str]) -> Items:
    """The pictures of a folder with one sub-folder per class, perhaps below `train/`, `val/` and `test/`."""
    folder = Path(path)
    if not folder.is_dir():
        raise Failure(f"{folder} {'is no folder' if folder.exists() else 'does not exist'}")
    tops = _part_folders(folder)
    found = {part: _class_files(top) for part, top in (tops or {"": folder}).items()}
    classes = sorted({name for files in found.values() for _, name in files})
    if len(classes) < 2:
        raise _too_few_classes(tops.get("train", folder), classes)
    return _listed(found, classes)


def _part_folders(folder: Path) -> dict[str, Path]:
    """The folders of the parts, where there is one for train. A `train` without sub-folders is a class: vehicles."""
    tops: dict[str, Path] = {}
    for part, names in PART_NAMES.items():
        there = [folder / name for name in names if _sub_folders(folder / name)]
        if len(there) > 1:
            both = " and ".join(top.name for top in there)
            raise Failure(f"{folder} has both {both}, which mean the same part", "keep one of them")
        if there:
            tops[part] = there[0]
    if tops and "train" not in tops and {top.name for top in tops.values()} == set(_sub_folders(folder)):
        raise Failure(f"{folder} has {' and '.join(top.name + '/' for top in tops.values())} but no train/")
    return tops if "train" in tops else {}


def _sub_folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not _is_hidden(entry.name))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in _DROPPINGS


def _class_files(folder: Path) -> list[tuple[str, str]]:
    """The picture files of each class, however deep in its folder, and the class."""
    found = {name: _picture_files(folder / name) for name in _sub_folders(folder)}
    empty = [str(folder / name) for name, files in found.items() if not files]
    if empty:
        endings = ", ".join(IMAGE_ENDINGS)
        verb = "holds" if len(empty) == 1 else "hold"
        raise Failure(f"{', '.join(empty[:8])} {verb} no pictures", f"remove it, or put pictures into it ({endings})")
    return [(file, name) for name, files in found.items() for file in files]


def _picture_files(folder: Path) -> list[str]:
    files: list[str] = []
    for place, below, names in os.walk(folder, followlinks=True):
        below[:] = sorted(name for name in below if not _is_hidden(name))
        files += [os.path.join(place, name) for name in names if _is_picture(name)]
    return sorted(files)


def _is_picture(name: str) -> bool:
    return not _is_hidden(name) and name.lower().endswith(IMAGE_ENDINGS)


def _too_few_classes(folder: Path, classes: Sequence[str]) -> Failure:
    below = [folder / name for name in classes if len(_sub_folders(folder / name)) > 1]
    if below:
        return Failure(f"{folder} has only one sub-folder, {below[0].name}", f"did you mean {below[0]}?")
    headline = f"{folder} has {f'one class only, {classes[0]}' if classes else 'no class folders'}"
    return Failure(headline, f"put the pictures of each class into a sub-folder of its own: {folder / 'ants'}")


def _listed(found: Mapping[str, Sequence[tuple[str, str]]], classes: Sequence[str]) -> Items:
    """The items of files with their classes, part after part; a part without a name is the whole."""
    number = {name: index for index, name in enumerate(classes)}
    files = [file for pairs in found.values() for file, _ in pairs]
    labels = [number[name] for pairs in found.values() for _, name in pairs]
    ends = list(accumulate((len(pairs) for pairs in found.values()), initial=0))
    given = {part: range(*between) for part, between in zip(found, pairwise(ends), strict=True) if part}
    opener = PictureFiles(files)
    return Items(tuple(classes), labels, len(files), opener, opener.name, given)


# -- tables


def table(
    path: str | os.PathLike[str],
    *,
    image: str,
    label: str = "label",
    root: str | os.PathLike[str] | None = None,
    separator: str | None = None,
) -> Items:
    """The pictures that a table names, one per line; a folder may hold one table per part: `train.csv`, `val.csv`."""
    source = Path(path)
    parts = _part_tables(source) if source.is_dir() else {"": source}
    rows = {part: _rows(file, (image, label), separator) for part, file in parts.items()}
    classes = _in_order({name for part in rows.values() for _, name in part})
    if len(classes) < 2:
        raise Failure(f"the column {label} of {source} has one label only, {classes[0]}")
    start = Path(root) if root is not None else (source if source.is_dir() else source.parent)
    found = {part: [(os.path.join(start, file), name) for file, name in lines] for part, lines in rows.items()}
    first = next(iter(found.values()))[0][0]
    if not os.path.exists(first):
        raise Failure(f"{first}, the first picture of {source}, does not exist", "say with `root` where paths start")
    return _listed(found, classes)


def _part_tables(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for part, names in PART_NAMES.items():
        there = [folder / f"{name}{ending}" for name in names for ending in TABLE_ENDINGS]
        there = [file for file in there if file.is_file()]
        if len(there) > 1:
            raise Failure(f"{folder} has both {there[0].name} and {there[1].name}", "keep one of them")
        if there:
            found[part] = there[0]
    if "train" not in found:
        raise Failure(f"{folder} has no train.csv")
    return found


def _rows(file: Path, columns: tuple[str, str], separator: str | None) -> list[tuple[str, str]]:
    """The two columns of a table that matter."""
    separator = separator or ("\t" if file.suffix.lower() == ".tsv" else ",")
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines, delimiter=separator)
            for column in columns:
                if column not in (reader.fieldnames or ()):
                    there = ", ".join(reader.fieldnames or ["none"])
                    raise Failure(f"{file} has no column {column}", f"its columns are: {there}")
            rows = [_cells(row, columns, file, reader.line_num) for row in reader]
    except FileNotFoundError:
        raise Failure(f"{file} does not exist") from None
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise Failure(f"{file} can't be read as a table: {problem}") from None
    if not rows:
        raise Failure(f"{file} has no lines below its header")
    return rows


def _cells(row: Mapping[str, str | None], columns: tuple[str, str], file: Path, line: int) -> tuple[str, str]:
    first, second = ((row[column] or "").strip() for column in columns)
    if not first or not second:
        raise Failure(f"line {line} of {file} has no {columns[0] if not first else columns[1]}")
    return first, second


def _in_order(names: Iterable[str]) -> list[str]:
    """Labels in alphabetical order, and numbers as numbers."""
    names = set(names)
    if all(name.isdecimal() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)
