"""Comma-separated text, or with tabs or any other separator."""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from leaven.formats.regular import open_regular

ENCODING = "utf-8-sig"  # spreadsheets write a byte order mark before the first column


class Table:
    """A text file whose first line names the columns. Its ending says the separator unless one is given."""

    ENDINGS: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    SOURCE: ClassVar[str] = "csv"

    def __init__(self, file: Path, separator: str | None = None) -> None:
        self.file = file
        self.separator = separator or ("\t" if file.suffix.lower() == ".tsv" else ",")

    def columns(self) -> Sequence[str]:
        with self._open() as lines:
            return self._reader(lines).fieldnames or ()

    def size(self, columns: Sequence[str]) -> int:
        return os.path.getsize(self.file)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        with self._open() as lines:
            reader = self._reader(lines)
            try:
                for row in reader:
                    yield f"line {reader.line_num}", tuple((row[column] or "").strip() for column in columns)
            except csv.Error as problem:
                raise ValueError(str(problem)) from None

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(open_regular(self.file), newline="", encoding=ENCODING)

    def _reader(self, lines: io.TextIOWrapper) -> "csv.DictReader[str]":
        try:
            reader = csv.DictReader(lines, delimiter=self.separator)
            _ = reader.fieldnames
        except (csv.Error, TypeError) as problem:  # a TypeError is about the separator
            raise ValueError(str(problem)) from None
        return reader
