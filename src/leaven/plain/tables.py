"""Tables of images or texts with their labels."""

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from pyarrow import parquet

from leaven.formats.image_folder import PART_NAMES
from leaven.formats.tables.jsonl_file import flat
from leaven.formats.target import plain
from leaven.plain.samples import Samples, predefined_in
from leaven.tasks.classification.target import in_order

ReadRows = Callable[[Path], list[dict[str, Any]]]
Cells = Mapping[str, Sequence[tuple[Any, Any]]]  # for each split, the input and the label of each row
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq")


# -- rows


def csv_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a table in text, by the names of its columns."""
    with file.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as lines:
        rows = csv.DictReader(lines, delimiter="\t" if file.suffix == ".tsv" else ",")
        return [{name: (cell or "").strip() for name, cell in row.items() if name} for row in rows]


def laid_out_rows(
    file: Path,
    *,
    separator: str | None = None,
    header: bool | str = "auto",
    columns: Sequence[str] | None = None,
    quote: str | None = '"',
    encoding: str = "utf-8",
) -> list[dict[str, Any]]:
    """The rows of a table in text that is laid out in another way than usual."""
    separator = separator or ("\t" if file.suffix == ".tsv" else ",")
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    quoting: Any = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
    with file.open(newline="", encoding=encoding, errors="surrogateescape") as lines:
        reader = csv.reader(lines, delimiter=separator, quotechar=quote, quoting=quoting)
        first, *rest = [cells for cells in reader if cells]
    if columns and len(first) != len(columns):  # a test table without labels
        return []
    has_header = not columns if header == "auto" else header
    names = columns or (first if has_header else [f"column{number}" for number in range(1, len(first) + 1)])
    rows = rest if has_header else [first, *rest]
    return [dict(zip(names, [cell.strip() for cell in cells], strict=False)) for cells in rows]


def jsonl_rows(file: Path) -> list[dict[str, Any]]:
    """The objects in the lines of a file."""
    return [flat(json.loads(line)) for line in file.read_text("utf-8-sig").split("\n") if line.strip()]


def parquet_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file; images in it are files in memory."""
    rows = parquet.read_table(file).to_pylist()
    return [{name: image_in(cell) for name, cell in row.items()} for row in rows]


def image_in(cell: Any) -> Any:
    """An image in a cell, as Hugging Face's datasets have it; other cells as they are."""
    if isinstance(cell, dict) and {*cell} >= {"bytes", "path"}:
        cell = cell["bytes"] or cell["path"]
    return BytesIO(cell) if isinstance(cell, bytes) else cell


def rows_by_ending(file: Path) -> list[dict[str, Any]]:
    """The rows of a table in any format."""
    if file.suffix in (".parquet", ".pq"):
        return parquet_rows(file)
    return jsonl_rows(file) if file.suffix in (".jsonl", ".ndjson") else csv_rows(file)


# -- the tables of splits


def table_cells(
    tables: Mapping[str, Path],
    rows: ReadRows,
    inputs: Sequence[str],
    labels: Sequence[str],
    missing: Sequence[Any] = (None, ""),
) -> dict[str, list[tuple[Any, Any]]]:
    """The input and the label of each row that has one; several columns make a tuple."""
    splits: dict[str, list[tuple[Any, Any]]] = {}
    for split, file in tables.items():
        for row in rows(file):
            given, told = [row.get(column) for column in inputs], [row.get(column) for column in labels]
            if not any(cell in missing for cell in told):
                sample = given[0] if len(given) == 1 else tuple(given), told[0] if len(told) == 1 else tuple(told)
                splits.setdefault(split, []).append(sample)
    return splits


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


def metadata_of(folder: Path) -> dict[str, Path]:
    """The table in a folder of images, or those in the folders of its splits."""
    places = {"": [folder]} | {split: [folder / name for name in names] for split, names in PART_NAMES.items()}
    known = [(split, each / "metadata") for split, there in places.items() for each in there]
    found = [(split, name.with_suffix(ending)) for split, name in known for ending in ENDINGS]
    tables = {split: file for split, file in found if file.is_file()}
    return {"": tables[""]} if "" in tables else tables


# -- images


def image_cells(
    path: str,
    rows: ReadRows,
    *,
    image: str,
    labels: Sequence[str],
    root: str | None = None,
    ending: str = "",
    missing: Sequence[Any] = (None, ""),
) -> Cells:
    """The images that a table lists, one per row, and their labels; a folder may hold one table per split."""
    cells = table_cells(tables_of(Path(path)), rows, [image], labels, missing)
    return located(cells, folder_of(path, root), ending)


def folder_cells(path: str, *, labels: Sequence[str], missing: Sequence[Any] = (None, "")) -> Cells:
    """The images of a folder that a table in it lists, `metadata.csv`; splits are folders with a table each."""
    tables = metadata_of(Path(path))
    found = [
        located(table_cells({split: file}, rows_by_ending, ["file_name"], labels, missing), file.parent)
        for split, file in tables.items()
    ]
    return {split: cells for splits in found for split, cells in splits.items()}


def folder_of(path: str, root: str | None) -> Path:
    """Where the paths in a table start."""
    return Path(root) if root else Path(path) if Path(path).is_dir() else Path(path).parent


def located(cells: Cells, folder: Path, ending: str = "") -> dict[str, list[tuple[Any, Any]]]:
    """Rows with the paths of the images from here; the table may leave out their ending."""

    def place(image: Any) -> Any:
        if not isinstance(image, str):
            return image if isinstance(image, BytesIO) else place(str(image))
        return os.path.join(folder, image.replace("\\", "/").removesuffix(ending) + ending)

    return {split: [(place(image), label) for image, label in rows] for split, rows in cells.items()}


def labelled(splits: Cells, inputs: Any, classes: Sequence[str] = ()) -> Samples:
    """Samples with labels, split after split; the classes are the different labels, or called as in `classes`."""
    labels = [str(plain(label)) for rows in splits.values() for _, label in rows]
    found = in_order(set(labels))
    every = inputs([one for rows in splits.values() for one, _ in rows])
    numbers = [found.index(label) for label in labels]
    return Samples(tuple(classes or found), every, numbers, predefined=predefined_in(splits))
