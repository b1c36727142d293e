"""The columns of a table that a model sees: the image that a cell names or holds, or the texts of one cell or two.

Decides what such cells may be, which of them can't be used, and what is opened; files, labels and splits are the
table's, in `table.py`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from leaven.formats.finding import About, Finding
from leaven.formats.tables import Embedded
from leaven.formats.target import Value, shown
from leaven.formats.texts import text_fault
from leaven.sources.copies import copies
from leaven.sources.source import Samples

IN_COLUMN = "in this column"
SKIPPING = "`on_bad_file skip` in the data block goes on without"


class Row(NamedTuple):
    """A row of a table."""

    place: str  # "line 7 of `faces.csv`"
    input: Any  # the image, or the texts; None where it was not read
    given: Any  # the label


class InputColumns(Protocol):
    """The columns of a table with what a model sees."""

    noun: ClassVar[str]  # of what is in them; also the argument that names them
    may_be_broken: ClassVar[bool] = False  # whether a cell that is not UTF-8 is the fault of its row, not of the table

    @property
    def columns(self) -> tuple[str, ...]: ...

    def read(self, place: str, cells: Sequence[Any]) -> Any:
        """The input in the cells of a row; a BadSource where they can't be one."""

    def opened(self, rows: Sequence[tuple[Path, Sequence[Row]]], samples: Samples) -> Samples:
        """Samples with what is in the rows of each split, which come with the folder in which their paths start."""

    def check(self) -> None:
        """A BadSource where there are too few of them, or too many."""
        return

    def unusable(self, rows: Sequence[Row], *, skips: bool) -> Iterable[Finding]:
        """Findings about inputs that can't be used, as far as a look tells: errors, unless they are skipped."""
        return ()

    def first_missing(self, rows: Sequence[Row], root: Path) -> Path | None:
        """The file of the first row, if that does not exist."""
        return None

    def repeated(self, rows: Sequence[Row], values: Sequence[Value], name: str, about: About) -> Iterable[Finding]:
        """Warnings about inputs that several rows of the table of that name have, where that does harm."""
        return ()


@dataclass(frozen=True)
class ImageColumn(InputColumns):
    """The paths of images, or images inside of the table. Paths may be without `ending`, and as Windows writes them."""

    column: str
    ending: str = ""
    noun: ClassVar[str] = "image"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def read(self, place: str, cells: Sequence[Any]) -> Any:
        (cell,) = cells
        if cell is None or cell == "":
            raise About(self.noun, IN_COLUMN).error("missing-file", f"{place} has no image")
        cell = str(cell) if self.ending and isinstance(cell, int) else cell
        named = _checked(cell, str | Embedded, "a file name", place, self.column, self.noun)
        return file_in_table(named, self.ending) if isinstance(named, str) else named

    def first_missing(self, rows: Sequence[Row], root: Path) -> Path | None:
        image = rows[0].input
        return None if not isinstance(image, str) or os.path.exists(root / image) else root / image

    def repeated(self, rows: Sequence[Row], values: Sequence[Value], name: str, about: About) -> Iterable[Finding]:
        places: dict[str, list[int]] = {}
        for at, row in enumerate(rows):
            if isinstance(row.input, str):
                places.setdefault(row.input, []).append(at)
        repeated = {image: there for image, there in places.items() if len(there) > 1}
        if not repeated:
            return
        conflicting = {image: there for image, there in repeated.items() if len({values[at] for at in there}) > 1}
        reported = conflicting or repeated
        image, there = next(iter(reported.items()))
        counted = f"{len(reported):,} images, such as `{image}`," if len(reported) > 1 else f"the image `{image}`"
        help = "list each image once; otherwise the same image can be in training and in validation"
        if conflicting:
            help = "give each image one label; if an image can have several, write them into one row, and `labels=`"
        how = "with different labels" if conflicting else "more than once"
        where = " and ".join(rows[at].place for at in there[:2])
        note = f"`{image}` is in {where}"
        yield about.warning("repeated-image", f"`{name}` lists {counted} {how}", help, notes=(note,))

    def opened(self, rows: Sequence[tuple[Path, Sequence[Row]]], samples: Samples) -> Samples:
        files: list[str] = []
        images: list[bytes | None] = []
        for root, there in rows:
            for row in there:
                is_inside = isinstance(row.input, Embedded)
                files.append((row.input.name or row.place) if is_inside else str(root / row.input))
                images.append(row.input.content if is_inside else None)
        if any(images):
            return samples._replace(files=files, images=images)
        return samples._replace(files=files, findings=(*samples.findings, *copies(files, samples.values)))


@dataclass(frozen=True)
class TextColumns(InputColumns):
    """The texts that a model reads: one, or two as a pair."""

    names: tuple[str, ...]
    noun: ClassVar[str] = "text"
    may_be_broken: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def check(self) -> None:
        if len(self.names) not in (1, 2):
            fact = f"a text has one part or two, and `text` names {len(self.names) or 'no'} columns"
            label = "one column, or two"
            raise About(self.noun, label).error("wrong-columns", fact, f"name {label}")

    def read(self, place: str, cells: Sequence[Any]) -> Any:
        texts = tuple(
            _checked(cell, str | None, "a string", place, column, self.noun) or ""
            for column, cell in zip(self.names, cells, strict=True)
        )
        return texts[0] if len(texts) == 1 else texts

    def unusable(self, rows: Sequence[Row], *, skips: bool) -> Iterator[Finding]:
        bad: dict[str, list[str]] = {}
        for row in rows:
            if fault := text_fault(row.input):
                bad.setdefault(fault.id, []).append(f"{row.place} {fault.fact}")
        for id, facts in bad.items():
            if skips:
                fact, help = skipped(facts), ""
            else:
                others = f"; {len(facts) - 1:,} more can't be used either" if len(facts) > 1 else ""
                fact, help = f"{facts[0]}{others}", f"fill it in or remove the line; {SKIPPING}"
            yield Finding(id, fact, help, is_error=not skips, argument=self.noun, label=IN_COLUMN)

    def opened(self, rows: Sequence[tuple[Path, Sequence[Row]]], samples: Samples) -> Samples:
        every = [row for _, there in rows for row in there]
        places = [row.place.replace("`", "") for row in every]
        return samples._replace(files=places, texts=[row.input for row in every])


def skipped(facts: Sequence[str]) -> str:
    """The rows that are left out, in words, by what is wrong with each."""
    rows = f"{len(facts):,} rows are skipped: {facts[0]}, and others"
    return rows if len(facts) > 1 else f"a row is skipped: {facts[0]}"


def file_in_table(cell: str, ending: str = "") -> str:
    """The path that a cell means."""
    path = cell.replace("\\", "/")
    return path if path.endswith(ending) else path + ending


def _checked(cell: Any, kinds: Any, wanted: str, place: str, column: str, argument: str) -> Any:
    if isinstance(cell, kinds):
        return cell
    fact = f"{place}: `{column}` must be {wanted}, not {shown(cell)}"
    raise About(argument, IN_COLUMN).error("wrong-format", fact)
