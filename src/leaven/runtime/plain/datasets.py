"""Images with their targets."""

import csv
import inspect
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps
from pyarrow import parquet
from sklearn.datasets import load_digits
from torch.utils.data import ConcatDataset, IterableDataset, Subset

from leaven.formats.image_folder import PART_NAMES, image_files, sub_folders
from leaven.formats.tables.jsonl_file import flat
from leaven.formats.target import plain
from leaven.runtime.data.torch_datasets import _known_labels, _of_lightning, as_plain
from leaven.runtime.plain.failures import Failure
from leaven.tasks.classification.target import in_order


class Samples(NamedTuple):
    """Texts with their targets, and the splits that they come with."""  #: if texts
    """Images with their targets, and the splits that they come with."""  #: if predefined and not texts
    """Images with their targets."""  #: if not predefined

    classes: tuple[str, ...]
    inputs: Any
    targets: Any
    predefined: Mapping[str, np.ndarray] = {}  #: if predefined
    target: Any = None  # what the targets mean  #: if targets


def digits() -> Samples:
    """scikit-learn's 1,797 handwritten digits, 8 by 8 pixels, one grey channel."""
    found = load_digits()
    images = [Image.fromarray(image) for image in np.rint(found.images * (255 / 16)).astype(np.uint8)]
    return Samples(tuple(map(str, found.target_names)), images, found.target.tolist())


# -- files


class ImageFiles:
    """Opens image files by their index in a list."""

    def __init__(self, files: Sequence[Any]) -> None:
        self.files = files  #: if not user_code
        # user code may change the working directory  #: if user_code
        self.files = [file if isinstance(file, bytes) else os.path.abspath(file) for file in files]  #: if user_code

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Image.Image:
        file = self.files[index]
        with Image.open(BytesIO(file) if isinstance(file, bytes) else file) as opened:  #: if parquet
            image = ImageOps.exif_transpose(opened)
        with Image.open(file) as opened:  #: if not parquet
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
        part: [(file, name) for name in sub_folders(there) for file in sorted(image_files(there / name))]
        for part, there in parts.items()
    }
    classes = sorted({name for _, name in next(iter(splits.values()))})
    return dataset_of_files({part: pairs for part, pairs in splits.items() if pairs}, classes)


class Label(NamedTuple):
    """The column of a table that holds the class."""

    column: str = "label"
    class_names: Sequence[str] = ()  #: if class_names

    def called(self, samples: Samples) -> Samples:  #: used
        """The same with these names for the classes."""
        return samples._replace(classes=tuple(self.class_names))


def table(
    path: str,
    *,
    image: str,
    target: Label,
    root: str | None = None,
    ending: str = "",  #: if ending
    on_bad_file: str = "stop",  #: if skip
    **layout: Any,
) -> Samples:
    """The images that a table lists, one per row; a folder may hold one table per split."""
    splits = table_splits(path, (image, target.column), root, layout)
    splits = {split: with_ending(rows, ending) for split, rows in splits.items()}  #: if ending
    return target.called(labelled(splits))  #: if class_names
    return labelled(splits)  #: if not class_names


def labelled_folder(path: str, *, target: Label) -> Samples:
    """The images of a folder that a table in it lists, `metadata.csv`; splits are folders with a table each."""
    return target.called(labelled(metadata_splits(path, ("file_name", target.column))))  #: if class_names
    return labelled(metadata_splits(path, ("file_name", target.column)))  #: if not class_names


def labelled(splits: Mapping[str, Sequence[tuple[Any, Any]]]) -> Samples:
    """Images with labels, split after split; the classes are the different labels."""
    names = [str(plain(label)) for pairs in splits.values() for _, label in pairs]
    classes = in_order(set(names))
    images = [image for pairs in splits.values() for image, _ in pairs]
    numbers = [classes.index(name) for name in names]
    return Samples(tuple(classes), ImageFiles(images), numbers, predefined_in(splits))


def metadata_splits(path: str, columns: Sequence[str]) -> dict[str, list[tuple[Any, Any]]]:
    """The images and targets in the table of a folder, or in those of the folders of its splits."""
    folder = Path(path)
    places = {"": [folder]} | {split: [folder / name for name in names] for split, names in PART_NAMES.items()}
    known = [(split, each / "metadata") for split, there in places.items() for each in there]
    found = [(split, name.with_suffix(ending)) for split, name in known for ending in ENDINGS]
    tables = {split: file for split, file in found if file.is_file()}
    tables = {"": tables[""]} if "" in tables else tables
    splits = {split: list(table_rows(file, columns, file.parent, {})) for split, file in tables.items()}
    return {split: rows for split, rows in splits.items() if rows}


def table_splits(
    path: str, columns: Sequence[str], root: str | None, layout: Mapping[str, Any]
) -> dict[str, list[tuple[Any, Any]]]:
    """The images and targets in a table, or in the tables of a folder: `train.csv`, `val.csv`."""
    file = Path(path)
    start = Path(root) if root else file if file.is_dir() else file.parent
    splits = {split: list(table_rows(there, columns, start, layout)) for split, there in tables_of(file).items()}
    return {split: rows for split, rows in splits.items() if rows}


def tables_of(file: Path) -> dict[str, Path]:
    """The table of each split in a folder; a single table is the split ''."""
    if not file.is_dir():
        return {"": file}
    known = [(split, file / name) for split, names in PART_NAMES.items() for name in names]
    for endings in (ENDINGS, (".txt",)):
        found = [(split, name.with_suffix(ending)) for split, name in known for ending in endings]
        tables = {split: there for split, there in found if there.is_file()}
        if "train" in tables:
            break
    return tables


def stripped(cell: Any) -> Any:
    return (cell or "").strip() if isinstance(cell, str | None) else cell


ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq")


def table_rows(
    file: Path, columns: Sequence[str], root: Path, layout: Mapping[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """Each image, as a path or as bytes, and what the columns of the target say."""
    for image, *targets in table_cells(file, columns[:1], columns[1:], layout):
        if isinstance(image, dict):  # as Hugging Face's datasets have it  #: if parquet
            image = image["bytes"] or image["path"]
        is_inside = isinstance(image, bytes)  #: if parquet
        path = str(image).replace("\\", "/")
        place: Any = image if is_inside else os.path.join(root, path)  #: if parquet
        place = os.path.join(root, path)  #: if not parquet
        yield place, targets[0] if len(targets) == 1 else tuple(targets)


def with_ending(rows: Sequence[tuple[Any, Any]], ending: str) -> list[tuple[Any, Any]]:
    """Images whose paths have an ending that the table leaves out."""
    return [(f"{str(image).removesuffix(ending)}{ending}", target) for image, target in rows]


def text_rows(
    file: Path,
    *,
    separator: str | None = None,
    header: bool | str = "auto",  #: if layout
    columns: Sequence[str] | None = None,  #: if layout
    quote: str | None = '"',  #: if layout
    encoding: str = "utf-8",  #: if layout
) -> list[dict[str, Any]]:
    """The rows of a text file, by the names of the columns."""
    separator = separator or ("\t" if file.suffix == ".tsv" else ",")
    broken = "surrogateescape"  # bytes that are not UTF-8: such texts are skipped  #: if bad_texts
    broken = "strict"  #: if layout and not bad_texts
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding  #: if layout
    quoting: Any = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL  #: if layout
    with file.open(newline="", encoding=encoding, errors=broken) as lines:  #: if layout
        reader = csv.reader(lines, delimiter=separator, quotechar=quote, quoting=quoting)  #: if layout
        first, *rest = [cells for cells in reader if cells]  #: if layout
    if columns and len(first) != len(columns):  # a test table without labels  #: if layout
        return []  #: if layout
    has_header = not columns if header == "auto" else header  #: if layout
    numbered = [f"column{number}" for number in range(1, len(first) + 1)]  #: if layout
    names = columns or (first if has_header else numbered)  #: if layout
    return [dict(zip(names, cells, strict=False)) for cells in (rest if has_header else [first, *rest])]  #: if layout
    with file.open(newline="", encoding="utf-8-sig", errors=broken) as lines:  #: if bad_texts and not layout
        return list(csv.DictReader(lines, delimiter=separator))  #: if bad_texts and not layout
    with file.open(newline="", encoding="utf-8-sig") as lines:  #: if not bad_texts and not layout
        return list(csv.DictReader(lines, delimiter=separator))  #: if not bad_texts and not layout


def table_cells(
    file: Path, inputs: Sequence[str], labels: Sequence[str], layout: Mapping[str, Any]
) -> Iterator[list[Any]]:
    """What the columns of each row say: those of the inputs, and those of the target."""
    columns = (*inputs, *labels)
    rows: list[dict[str, Any]]
    if file.suffix in (".parquet", ".pq"):  #: if labelled_folder
        rows = parquet.read_table(file, columns=list(columns)).to_pylist()
    elif file.suffix in (".jsonl", ".ndjson"):  #: if labelled_folder
        rows = [flat(json.loads(line)) for line in file.read_text("utf-8-sig").split("\n") if line.strip()]
    else:  #: if labelled_folder
        rows = text_rows(file)  #: if labelled_folder
    rows = text_rows(file, **layout)  #: if csv and not labelled_folder
    with file.open(encoding="utf-8-sig") as lines:  #: if jsonl and not labelled_folder
        rows = [flat(json.loads(line)) for line in lines if line.strip()]
    rows = parquet.read_table(file, columns=list(columns)).to_pylist()  #: if parquet and not labelled_folder
    if not any(column in row for row in rows for column in labels):  # a test table without labels
        return
    for row in rows:
        cells = [stripped(row.get(column)) for column in columns]  #: if csv
        cells = [row.get(column) for column in columns]  #: if not csv
        targets = cells[len(inputs) :]  #: if skip
        missing = (None, "")  #: if skip and not targets
        missing = (None, "")  #: if skip and numbers
        missing = (None, "") if len(targets) > 1 else (None,)  #: if skip and targets and not numbers
        if any(each in missing for each in targets):  #: if skip
            continue
        yield cells


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
    return concatenated(splits_of_user(source), None)


def splits_of_user(source: Any) -> dict[str, Any]:
    """The datasets of the user's for each split; a single one has an empty name."""
    made = source() if inspect.isclass(source) or inspect.isroutine(source) else source
    if hasattr(made, "train_dataloader"):
        made = _of_lightning(made)
    splits = dict(made) if isinstance(made, Mapping) else {"": made}
    if any(isinstance(dataset, IterableDataset) for dataset in splits.values()):
        raise Failure("a standalone program can't read an IterableDataset", "the normal program can")
    return splits


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
        names = [str(plain(label)) for label in labels]
        classes = tuple(in_order(set(names)))
        return Samples(classes, Images(joined), [classes.index(name) for name in names], predefined)
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
