"""Tables of samples: one file, or one for each split.

A format of tables is a class in a module of this folder (`csv_file.py`). What the cells mean is decided in
`sources/table.py` and by the target of the task.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from leaven.formats.image_folder import PART_NAMES

TEXT = ".csv"  # a file with an unknown ending is read as one with this
OTHER_TEXT = ".txt"  # a table for a split may end in this where none has an ending of its own


class Embedded(NamedTuple):
    """An image inside of a table."""

    content: bytes
    name: str = ""


class BadLine(ValueError):
    """A line that is not a row of a table; `place` is "line 7"."""

    def __init__(self, place: str, fact: str) -> None:
        super().__init__(f"{place} {fact}")
        self.place, self.fact = place, fact


class NotUtf8(BadLine):
    """A line with bytes that are not UTF-8, or whatever encoding the table should have."""

    def __init__(self, place: str, encoding: str = "UTF-8") -> None:
        super().__init__(place, f"is not {encoding} text")


class StrayQuote(BadLine):
    """A line with a quote that does not enclose a cell."""


class OneList(BadLine):
    """The first line of a file that is one list of objects, instead of one object per line."""


class WrongWidth(BadLine):
    """A first line with another number of cells than `columns` has names."""


class Layout(NamedTuple):
    """How a table is laid out in a text file, as far as that is said."""

    separator: str | None = None  # None: as the ending of the file says
    header: bool | Literal["auto"] = "auto"  # whether the first line names the columns; auto: unless `columns` does
    columns: tuple[str, ...] = ()  # their names; empty: those in the first line, else column1, column2, …
    quote: str | None = '"'  # None: quotes are part of the text
    encoding: str = "utf-8"

    @property
    def has_header(self) -> bool:
        return not self.columns if self.header == "auto" else self.header


PLAIN = Layout()


class Doubt(NamedTuple):
    """Something about a line that is probably not meant, and how to read it otherwise."""

    place: str
    fact: str
    help: str


class TableFile(ABC):
    """A file with named columns. An OSError or a ValueError says that it can't be read."""

    ENDINGS: ClassVar[tuple[str, ...]]
    SOURCE: ClassVar[str]  # what recipes call it

    def __init__(self, file: Path, layout: Layout = PLAIN) -> None:
        self.file = file
        self.layout = layout
        self.errors = "strict"  # what is done with bytes that are not UTF-8
        self.doubts: list[Doubt] = []  # about the rows that were read, once all are

    @abstractmethod
    def columns(self) -> Sequence[str]: ...

    def size(self, columns: Sequence[str]) -> int:
        """How many bytes are read for these columns."""
        return os.path.getsize(self.file)

    @abstractmethod
    def rows(self, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Where each row is ("line 7") and its cells in these columns, which the table must have."""


@cache
def formats() -> dict[str, type[TableFile]]:
    """The classes that read tables, by the endings of their files."""
    modules = sorted(file.stem for file in Path(__file__).parent.glob("*_file.py"))
    classes = [import_module(f"{__name__}.{module}").Table for module in modules]
    return {ending: each for each in classes for ending in each.ENDINGS}


def is_table(file: Path) -> bool:
    return file.suffix.lower() in formats()


def open_table(file: Path, layout: Layout = PLAIN, *, is_lenient: bool = False) -> TableFile:
    """The table in a file; one with an unknown ending is read as comma-separated text.

    With `is_lenient`, bytes that are not UTF-8 become halves of characters instead of errors.
    """
    table = formats().get(file.suffix.lower(), formats()[TEXT])(file, layout)
    if is_lenient:
        table.errors = "surrogateescape"
    return table


def layout_like(path: Path, columns: Sequence[str], known: Layout) -> Layout:
    """How a table, or those in a folder, is laid out, where others with these columns are as `known`.

    It may also be laid out as usual, or have a header that the others don't have.
    """
    tables = [files[0] for files in split_tables(path).values()] if path.is_dir() else [path]
    for layout in (PLAIN, known._replace(header=True, columns=())):
        try:
            if tables and all(set(columns) <= set(open_table(file, layout).columns()) for file in tables):
                return layout
        except (OSError, ValueError):  # reported when it is read
            continue
    return known


def is_table_like(file: Path, known: Layout) -> bool:
    """Whether a file is a table: by its ending, or because all its lines have as many cells as others like it."""
    if is_table(file):
        return True
    if len(known.columns) < 2:
        return False
    table = open_table(file, known)
    try:
        return bool(table.columns()) and all(cells[-1] for _, cells in table.rows(known.columns)) and not table.doubts
    except (OSError, ValueError):
        return False


def split_tables(folder: Path) -> dict[str, list[Path]]:
    """The tables of each split in a folder; more than one of a split is one too many."""
    stems = {split: [folder / name for name in names] for split, names in PART_NAMES.items()}
    found = _tables(stems, formats())
    return found if "train" in found else _tables(stems, (OTHER_TEXT,))


def metadata_tables(folder: Path) -> dict[str, list[Path]]:
    """The tables that list the images of a folder, or of the folders of its splits."""
    stems = {split: [folder / name / "metadata" for name in names] for split, names in PART_NAMES.items()}
    found = _tables({"": [folder / "metadata"], **stems}, formats())
    return {"": found[""]} if "" in found else found


def _tables(stems: Mapping[str, Sequence[Path]], endings: Collection[str]) -> dict[str, list[Path]]:
    """The tables of each split that are there, of the files of these names with these endings."""
    files = {split: [Path(f"{stem}{ending}") for stem in there for ending in endings] for split, there in stems.items()}
    found = {split: [file for file in there if os.path.isfile(file)] for split, there in files.items()}
    return {split: there for split, there in found.items() if there}
