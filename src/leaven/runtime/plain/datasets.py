"""Images with labels."""

import csv
import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps
from sklearn.datasets import load_digits
from torch.utils.data import ConcatDataset, IterableDataset, Subset

from leaven.formats.image_folder import PART_NAMES, pictures, sub_folders
from leaven.runtime.data.torch_datasets import _known_labels, _of_lightning, as_plain
from leaven.runtime.plain.failures import Failure
from leaven.tasks.classification.target import in_order, plain


class Samples(NamedTuple):
    """Images with their labels, and the splits that they come with."""  #: if predefined
    """Images with their labels."""  #: if not predefined

    classes: tuple[str, ...]
    images: Any
    labels: Any
    predefined: Mapping[str, np.ndarray] = {}  #: if predefined


def digits() -> Samples:
    """scikit-learn's 1,797 handwritten digits, 8 by 8 pixels, one grey channel."""
    found = load_digits()
    images = [Image.fromarray(image) for image in np.rint(found.images * (255 / 16)).astype(np.uint8)]
    return Samples(tuple(map(str, found.target_names)), images, found.target.tolist())


# -- files


class ImageFiles:
    """Opens image files by their index in a list."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Image.Image:
        with Image.open(self.files[index]) as opened:
            image = ImageOps.exif_transpose(opened)
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):  # which Pillow alone would clip at 255
            image = Image.fromarray(eight_bits(np.asarray(image), image.mode))
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        return image.convert("RGB")


def eight_bits(values: np.ndarray, mode: str) -> np.ndarray:
    """Grey values of 16 or 32 bits scaled to 8 bits."""
    highest = float(values.max(initial=0))
    top = max(65535.0, highest)
    if mode == "F":
        top = next((top for top in (1.0, 255.0, 65535.0) if highest <= top), highest)
    if mode == "I" and highest <= 255:
        top = 255.0
    return np.nan_to_num(np.clip(values.astype(np.float64) * (255.0 / top), 0, 255)).round().astype(np.uint8)


def dataset_of_files(splits: Mapping[str, Sequence[tuple[str, str]]], classes: Sequence[str]) -> Samples:
    """Files with the names of their classes, split after split; a split without a name is the whole."""
    pairs = [pair for split in splits.values() for pair in split]
    labels = [classes.index(name) for _, name in pairs]
    return Samples(tuple(classes), ImageFiles([file for file, _ in pairs]), labels, predefined_in(splits))


def predefined_in(splits: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The indices of each split, where they come one after the other."""
    ends = np.cumsum([0, *map(len, splits.values())])
    return {name: np.arange(ends[at], ends[at + 1]) for at, name in enumerate(splits) if name}


def image_folder(path: str) -> Samples:
    """The images of a folder with one sub-folder per class, optionally inside `train/`, `val/` and `test/`."""
    folder, tops = Path(path), sub_folders(Path(path))
    known = {top: part for part, names in PART_NAMES.items() for top in tops if top.lower() in names}
    # a `train` of images beside a `bus` is a class
    parts = {part: folder / top for top, part in known.items() if len(known) == len(tops) or sub_folders(folder / top)}
    parts = {part: parts[part] for part in PART_NAMES if part in parts} if "train" in parts else {"": folder}
    splits = {
        part: [(file, name) for name in sub_folders(there) for file in sorted(pictures(there / name))]
        for part, there in parts.items()
    }
    classes = sorted({name for _, name in next(iter(splits.values()))})
    return dataset_of_files({part: pairs for part, pairs in splits.items() if pairs}, classes)


class Label(NamedTuple):
    """The column of a table that holds the class."""

    column: str = "label"


def table(
    path: str, *, image: str, target: Label, root: str | None = None, separator: str | None = None
) -> Samples:
    """The images that a table lists, one per row; a folder may hold one table per split: `train.csv`, `val.csv`."""
    file = Path(path)
    tables = {"": file}
    if file.is_dir():
        names = [(split, file / f"{name}.csv") for split, names in PART_NAMES.items() for name in names]
        tables = {split: table for split, table in names if table.is_file()}
    start = Path(root) if root else file if file.is_dir() else file.parent
    splits = {split: list(table_rows(table, image, target.column, start, separator)) for split, table in tables.items()}
    labels = {label for pairs in splits.values() for _, label in pairs}
    return dataset_of_files(splits, in_order(labels))


def table_rows(file: Path, image: str, label: str, root: Path, separator: str | None) -> Iterator[tuple[str, str]]:
    """The path of each image, and its class."""
    with file.open(newline="", encoding="utf-8-sig") as lines:
        for row in csv.DictReader(lines, delimiter=separator or ("\t" if file.suffix == ".tsv" else ",")):
            yield str(root / row[image].strip()), row[label].strip()


# -- Python objects


def torchvision_dataset(
    make: Any,
    *,
    splits: Mapping[str, Mapping[str, Any]] | None = None,
    classes: int | None = None,
    **arguments: Any,
) -> Samples:
    """One of torchvision's datasets; `splits` gives the arguments that select each official split."""
    if splits is None:
        takes_train = "train" in inspect.signature(make).parameters
        splits = {"train": {"train": True}, "test": {"train": False}} if takes_train else {}
    made = {name: make(**arguments, **chosen) for name, chosen in splits.items()} or {"": make(**arguments)}
    return concatenated(made, None if classes is None else tuple(map(str, range(classes))))


def user_dataset(source: Any) -> Samples:
    """A dataset of (image, label) pairs, or several: {"train": …, "val": …}; or what returns them."""
    made = source() if inspect.isclass(source) or inspect.isroutine(source) else source
    if hasattr(made, "train_dataloader"):
        made = _of_lightning(made)
    splits = dict(made) if isinstance(made, Mapping) else {"": made}
    if any(isinstance(dataset, IterableDataset) for dataset in splits.values()):
        raise Failure("a standalone program can't read an IterableDataset", "the normal program can")
    return concatenated(splits, None)


def concatenated(splits: Mapping[str, Any], classes: tuple[str, ...] | None) -> Samples:
    """Several datasets as one."""
    datasets, predefined = list(splits.values()), predefined_in(splits)
    joined: Any = ConcatDataset(datasets)
    classes = classes or next((found for one in datasets if (found := told_classes(one))), None)
    labels = _known_labels(datasets)
    if labels is None and classes is not None:
        return Samples(classes, Pairs(joined, classes), None, predefined)
    labels = [as_plain(joined[at][1]) for at in range(len(joined))] if labels is None else labels
    if classes is None:
        labels = [plain(label) for label in labels]
        classes = tuple(map(str, in_order(set(labels))))
        return Samples(classes, Images(joined), [classes.index(str(label)) for label in labels], predefined)
    return Samples(classes, Images(joined), [class_index(label, classes) for label in labels], predefined)


def told_classes(dataset: Any) -> tuple[str, ...] | None:
    """The classes that a dataset tells by an attribute."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    for attribute in ("classes", "categories"):
        names = getattr(dataset, attribute, None)
        if isinstance(names, Sequence) and not isinstance(names, str) and len(names) > 1:
            return tuple(", ".join(name) if isinstance(name, tuple) else str(name) for name in names)
    counts = [getattr(dataset, attribute, None) for attribute in ("num_classes", "n_classes")]
    return next((tuple(map(str, range(count))) for count in counts if isinstance(count, int)), None)


def class_index(label: Any, classes: Sequence[str]) -> int:
    """The index of a class that is given by its name or its index."""
    label = plain(as_plain(label))
    return classes.index(label) if isinstance(label, str) else int(label)


class Images:
    """The images of a dataset of pairs."""

    def __init__(self, pairs: Any) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.pairs[index][0]


class Pairs(Images):
    """Pairs of an image and the index of its class, which only reading the image tells."""

    def __init__(self, pairs: Any, classes: Sequence[str]) -> None:
        super().__init__(pairs)
        self.classes = classes

    def __getitem__(self, index: int) -> Any:
        image, label = self.pairs[index]
        return image, class_index(label, self.classes)
