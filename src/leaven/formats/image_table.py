"""Images that a table lists, one per row, with their labels; or one table per split."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaven.formats.finding import BadSource, Finding
from leaven.formats.samples import Looked, Samples, joined
from leaven.formats.tables import TableFile, metadata_tables, open_table, split_tables
from leaven.formats.target import BadTarget, Target, TargetReader, Value

LARGEST_LOOK = 50_000_000  # bytes: a look at larger tables takes too long
LISTED = 8
FILE_NAME = "file_name"  # as in other libraries that read such folders


@dataclass(frozen=True)
class ImageTable:
    """A table of images. `name` is what findings call its file or folder."""

    path: Path
    name: str
    image: str
    target: TargetReader
    root: Path | None = None
    separator: str | None = None
    is_metadata: bool = False  # whether the table is inside of the folder of images

    def look(self) -> Looked:
        """What is known before training; images are not looked for."""
        splits: tuple[str, ...] = ()
        try:
            tables = self._tables()
            splits = tuple(split for split in tables if split)
            is_large = any(os.path.getsize(file) > LARGEST_LOOK for file in tables.values())
            rows = {split: self._rows(file, is_short=is_large) for split, file in tables.items()}
            return Looked(None if is_large else self._read(rows)[0], splits)
        except BadSource as bad:
            return Looked(None, splits, (bad.finding,))

    def open(self) -> Samples:
        """All samples; a BadSource where they can't be read."""
        tables = self._tables()
        rows = {split: self._rows(file) for split, file in tables.items()}
        target, values = self._read(rows)
        every = iter(values)
        splits = {
            split: [(os.path.join(self._root(file), image), next(every)) for _, image, _ in rows[split]]
            for split, file in tables.items()
        }
        first = next(iter(splits.values()))[0][0]
        if not os.path.exists(first):
            fact = f"`{first}`, the first image of `{self.name}`, does not exist"
            raise BadSource(Finding("missing-file", fact, "say where the paths start: `root=`", argument="root"))
        return joined(target, splits)

    def _root(self, file: Path) -> Path:
        """Where the paths in a table start."""
        return self.root or (self.path if self.path.is_dir() and not self.is_metadata else file.parent)

    def _tables(self) -> dict[str, Path]:
        """The file of each split; a single table is the split ''."""
        if not self.path.is_dir():
            return {"": self.path}
        found = metadata_tables(self.path) if self.is_metadata else split_tables(self.path)
        for tables in found.values():
            if len(tables) > 1:
                both = " and ".join(f"`{file.relative_to(self.path).as_posix()}`" for file in tables)
                fact = f"`{self.name}` has both {both}, which are the same split"
                raise BadSource(Finding("repeated-split", fact, "keep one of them", argument=self._argument))
        if not found.keys() & {"", "train"}:
            wanted = "metadata.csv" if self.is_metadata else "train.csv"
            help = f"list the images in it, with the columns `{self.image}` and {_columns(self.target.columns)}"
            raise BadSource(Finding("missing-file", f"`{self.name}` has no `{wanted}`", help, argument=self._argument))
        return {split: tables[0] for split, tables in found.items()}

    @property
    def _argument(self) -> str:
        return "path" if self.is_metadata else "file"

    def _rows(self, file: Path, *, is_short: bool = False) -> list[tuple[str, str, Any]]:
        """Where each row is, its image and its label."""
        name = self.name if file == self.path else f"{self.name}/{file.relative_to(self.path).as_posix()}"
        columns = (self.image, *self.target.columns)
        try:
            table = open_table(file, self.separator)
            self._check_columns(table, columns, name)
            if is_short:
                return []
            rows = [(f"{place} of `{name}`", *cells) for place, cells in table.rows(columns)]
        except FileNotFoundError:
            raise BadSource(Finding("missing-file", f"`{name}` does not exist", argument=self._argument)) from None
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise BadSource(
                Finding("missing-file", f"`{name}` can't be read: {reason}", argument=self._argument)
            ) from None
        if not rows:
            raise BadSource(Finding("empty-table", f"`{name}` has no rows", argument=self._argument))
        for place, image, *_ in rows:
            if not isinstance(image, str) or not image:
                raise BadSource(Finding("missing-file", f"{place} has no image", argument="image"))
        return [(place, image, _given(cells)) for place, image, *cells in rows]

    def _check_columns(self, table: TableFile, wanted: Sequence[str], name: str) -> None:
        there = table.columns()
        if not there:
            raise BadSource(Finding("empty-table", f"`{name}` is empty", argument=self._argument))
        for column in wanted:
            if column not in there:
                listed = _columns(there[:LISTED]) or "none"
                raise BadSource(
                    Finding(
                        "unknown-column",
                        f"`{name}` has no column `{column}`",
                        f"its columns are {listed}",
                        argument="image" if column == self.image else self.target.argument,
                        label=f"the columns are {listed}",
                        wrong=column,
                        choices=tuple(there),
                    )
                )

    def _read(self, rows: Mapping[str, Sequence[tuple[str, str, Any]]]) -> tuple[Target, list[Value]]:
        every = [row for split in rows.values() for row in split]
        try:
            return self.target.read([given for _, _, given in every])
        except BadTarget as bad:
            place = f"`{self.name}`" if bad.at is None else every[bad.at][0]
            fact, label = f"{place} {bad.fact}", "in this column"
            raise BadSource(Finding(bad.id, fact, bad.help, argument=self.target.argument, label=label)) from None


def metadata_folder(folder: Path, name: str, target: TargetReader) -> ImageTable:
    """A folder of images that a table in it lists: `metadata.csv`, with the column `file_name`.

    Splits are folders with a table each: `train/metadata.csv`.
    """
    return ImageTable(folder, name, FILE_NAME, target, is_metadata=True)


def _columns(columns: Sequence[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


def _given(cells: Sequence[Any]) -> Any:
    """The label of a row: one cell, or several."""
    return cells[0] if len(cells) == 1 else tuple(cells)
