"""Comma-separated text, or with tabs or any other separator."""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from leaven.formats.regular import open_regular
from leaven.formats.tables import BadLine, NotUtf8

ENCODING = "utf-8-sig"  # spreadsheets write a byte order mark before the first column


class Table:
    """A text file whose first line names the columns. Its ending says the separator unless one is given."""

    ENDINGS: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    SOURCE: ClassVar[str] = "csv"

    def __init__(self, file: Path, separator: str | None = None) -> None:
        self.file = file
        self.separator = separator or ("\t" if file.suffix.lower() == ".tsv" else ",")
        self.errors = "strict"  # what is done with bytes that are not UTF-8

    def columns(self) -> Sequence[str]:
        with self._open() as lines:
            return next((cells for _, cells in self._records(lines)), ())

    def size(self, columns: Sequence[str]) -> int:
        return os.path.getsize(self.file)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        with self._open() as lines:
            records = self._records(lines)
            _, names = next(records)
            places = [names.index(column) for column in columns]
            for line, cells in records:
                yield f"line {line}", tuple(cells[at].strip() if at < len(cells) else "" for at in places)

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(open_regular(self.file), newline="", encoding=ENCODING, errors=self.errors)

    def _records(self, lines: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
        """The last line of each record, and its cells; empty lines after the first are none."""
        start = 1
        try:
            reader = csv.reader(lines, delimiter=self.separator, strict=True)
            for cells in reader:
                if cells or start == 1:
                    yield reader.line_num, cells
                start = reader.line_num + 1
        except UnicodeDecodeError:
            raise NotUtf8(f"line {_first_broken(self.file)}") from None
        except TypeError as problem:  # about the separator
            raise ValueError(str(problem)) from None
        except csv.Error as problem:
            raise BadLine(f"line {start}", _fault(str(problem))) from None


def _first_broken(file: Path) -> int:
    """The first line that is not UTF-8."""
    with open_regular(file) as lines:
        return next(number for number, line in enumerate(lines, 1) if not _is_utf8(line))


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fault(problem: str) -> str:
    """What is wrong with a record, in the words of a report; `problem` is in those of the module csv."""
    if "unexpected end" in problem or "expected after" in problem:
        return 'has a quote (") that is not closed, or text after a closing quote'
    if "field larger" in problem:
        return f'has a cell of more than {csv.field_size_limit():,} characters; perhaps a quote (") is not closed'
    return f"can't be read: {problem}"
