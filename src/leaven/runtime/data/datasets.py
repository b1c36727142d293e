"""Image datasets whose samples are loaded one at a time, by index: folders, tables, scikit-learn's digits.

What counts as an image or a class in a folder is decided in `formats`, for the checker too; datasets that come as
Python objects are in `torch_datasets.py`. The split is decided in `splits.py`, order and transforms in `batches.py`.
"""

import csv
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from leaven.formats.image_folder import pictures, read_image_folder
from leaven.formats.tables import ENCODING, in_order, part_tables, separator_of
from leaven.runtime.data.images import open_image
from leaven.runtime.failures import Caution, Failure


@dataclass(frozen=True)
class Dataset:
    """All samples of a dataset. `predefined` holds the splits that it comes with, as indices.

    Where `labels` is None, only loading a sample tells its label: `load` then returns the pair of image and label.
    A dataset can be pickled, for worker processes.
    """

    classes: tuple[str, ...]
    labels: Sequence[int] | None
    size: int
    load: Callable[[int], Any]
    name: Callable[[int], str]
    predefined: Mapping[str, Sequence[int]] = field(default_factory=dict)
    in_memory: bool = False

    def __len__(self) -> int:
        return self.size


# -- digits


def digits() -> Dataset:
    """scikit-learn's 1,797 handwritten digits, 8 by 8 pixels, one grey channel."""
    from sklearn.datasets import load_digits  # takes a second, and few programs need it

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels = [int(label) for label in bunch.target]
    classes = tuple(str(name) for name in bunch.target_names)
    return Dataset(classes, labels, len(labels), _Grey(pixels), _Numbered("digit"), in_memory=True)


@dataclass(frozen=True)
class _Grey:
    """Opens grey images that are stored as one array."""

    pixels: np.ndarray

    def __call__(self, index: int) -> Image.Image:
        return Image.fromarray(self.pixels[index])


@dataclass(frozen=True)
class _Numbered:
    """Names samples that have no name."""

    noun: str

    def __call__(self, index: int) -> str:
        return f"{self.noun} {index}"


@dataclass(frozen=True)
class ImageFiles:
    """Opens image files by their index in a list."""

    files: Sequence[str]
    mode: str = "RGB"

    def __call__(self, index: int) -> Image.Image:
        return open_image(self.files[index], self.mode)

    def name(self, index: int) -> str:
        return self.files[index]


# -- folders


def image_folder(path: str | os.PathLike[str]) -> Dataset:
    """The images of a folder with one sub-folder per class, optionally inside `train/`, `val/` and `test/`."""
    folder = Path(path)
    if not folder.is_dir():
        raise Failure(f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}")
    read = read_image_folder(folder, folder.as_posix())
    for finding in read.findings:
        if finding.is_error:
            raise Failure("\n".join((finding.fact, *finding.notes)), finding.help)
        warnings.warn(finding.fact, Caution, stacklevel=2)
    found = {
        split: [(file, name) for name in there.classes for file in sorted(pictures(there.folder / name))]
        for split, there in read.parts.items()
    }
    return _from_files(found, read.classes)


def _from_files(found: Mapping[str, Sequence[tuple[str, str]]], classes: Sequence[str]) -> Dataset:
    """A dataset of files with their classes, split after split; a split without a name is the whole dataset."""
    number = {name: index for index, name in enumerate(classes)}
    files = [file for pairs in found.values() for file, _ in pairs]
    labels = [number[name] for pairs in found.values() for _, name in pairs]
    ends = list(accumulate((len(pairs) for pairs in found.values()), initial=0))
    predefined = {split: range(*between) for split, between in zip(found, pairwise(ends), strict=True) if split}
    opener = ImageFiles(files)
    return Dataset(tuple(classes), labels, len(files), opener, opener.name, predefined)


# -- tables


def table(
    path: str | os.PathLike[str],
    *,
    image: str,
    label: str = "label",
    root: str | os.PathLike[str] | None = None,
    separator: str | None = None,
) -> Dataset:
    """The images that a table names, one per row; a folder may hold one table per split: `train.csv`, `val.csv`."""
    source = Path(path)
    tables = _split_tables(source) if source.is_dir() else {"": source}
    rows = {split: _rows(file, (image, label), separator) for split, file in tables.items()}
    classes = in_order({name for pairs in rows.values() for _, name in pairs})
    if len(classes) < 2:
        raise Failure(f"the column {label} of {source} has only one label, {classes[0]}")
    start = Path(root) if root is not None else (source if source.is_dir() else source.parent)
    found = {split: [(os.path.join(start, file), name) for file, name in pairs] for split, pairs in rows.items()}
    first = next(iter(found.values()))[0][0]
    if not os.path.exists(first):
        raise Failure(f"{first}, the first image of {source}, does not exist", "set `root` to the folder of the images")
    return _from_files(found, classes)


def _split_tables(folder: Path) -> dict[str, Path]:
    found = part_tables(folder)
    for there in found.values():
        if len(there) > 1:
            raise Failure(f"{folder} has both {there[0].name} and {there[1].name}", "keep one of them")
    if "train" not in found:
        raise Failure(f"{folder} has no train.csv")
    return {split: there[0] for split, there in found.items()}


def _rows(file: Path, columns: tuple[str, str], separator: str | None) -> list[tuple[str, str]]:
    """The two columns of a table that matter."""
    try:
        with file.open(newline="", encoding=ENCODING) as lines:
            reader = csv.DictReader(lines, delimiter=separator_of(file, separator))
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
        raise Failure(f"{file} has no rows after its header")
    return rows


def _cells(row: Mapping[str, str | None], columns: tuple[str, str], file: Path, line: int) -> tuple[str, str]:
    first, second = ((row[column] or "").strip() for column in columns)
    if not first or not second:
        raise Failure(f"line {line} of {file} has no {columns[0] if not first else columns[1]}")
    return first, second
