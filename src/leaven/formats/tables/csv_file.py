"""Comma-separated text, or with tabs or any other separator; with or without a header, and quotes."""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

from leaven.files.regular import open_regular
from leaven.formats.tables import PLAIN, BadLine, Doubt, Layout, NotUtf8, StrayQuote, TableFile, WrongWidth

UTF8 = "utf-8-sig"  # spreadsheets write a byte order mark before the first column
COLUMN = "column{}"  # the name of one that has no other
NO_QUOTES = "if quotes have no meaning in this table, add the argument `quote=none`"
LOOKED_AT = 1_000_000  # bytes that tell the encoding
_NOT_OF_WINDOWS = {0x81, 0x8D, 0x8F, 0x90, 0x9D}


class Table(TableFile):
    """A text file with a row per line. Its ending says the separator unless the layout does."""

    ENDINGS: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    SOURCE: ClassVar[str] = "csv"

    def __init__(self, file: Path, layout: Layout = PLAIN) -> None:
        super().__init__(file, layout)
        self.separator = layout.separator or ("\t" if file.suffix.lower() == ".tsv" else ",")

    def columns(self) -> Sequence[str]:
        with self._open() as lines:
            _, first = next(self._records(lines), (0, []))
            return self._names(first)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        self.doubts = []
        with self._open() as lines:
            records = self._records(lines)
            first = next(records, None)
            if first is None:
                return
            names = self._names(first[1])
            places = [names.index(column) for column in columns]
            for line, cells in records if self.layout.has_header else chain((first,), records):
                if not self.doubts and (doubt := self._doubt(cells, len(names), line)):
                    self.doubts.append(doubt)
                yield f"line {line}", tuple(cells[at].strip() if at < len(cells) else "" for at in places)

    def _names(self, first: Sequence[str]) -> Sequence[str]:
        """The names of the columns of a table whose first line has these cells."""
        given = self.layout.columns
        if first and given and len(first) != len(given):
            raise WrongWidth("line 1", f"has {len(first)} cells, but `columns` has {len(given)} names")
        if not first or given:
            return given if first else ()
        numbers = range(1, len(first) + 1)
        return first if self.layout.has_header else [COLUMN.format(number) for number in numbers]

    def _doubt(self, cells: Sequence[str], columns: int, line: int) -> Doubt | None:
        """A reason to doubt that a line was read as it is meant."""
        if any(cells[columns:]):
            fact = f"has {len(cells)} cells, but the table has {columns} column{'s' * (columns != 1)}"
            return Doubt(f"line {line}", fact, "put quotes around a cell that has the separator in it")
        if self.separator == "\t" and any("\t" in cell.partition("\n")[2] for cell in cells):
            fact = "ends a quote that has other lines of the table in it"
            return Doubt(f"line {line}", fact, NO_QUOTES)
        return None

    def _open(self) -> io.TextIOWrapper:
        encoding = UTF8 if self._is_utf8 else self.layout.encoding
        try:
            return io.TextIOWrapper(open_regular(self.file), newline="", encoding=encoding, errors=self.errors)
        except LookupError:
            raise ValueError(f"there is no encoding {self.layout.encoding}") from None

    @property
    def _is_utf8(self) -> bool:
        return self.layout.encoding.lower().replace("_", "-") in ("utf-8", "utf8", UTF8)

    def _records(self, lines: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
        """The last line of each record, and its cells; empty lines after the first are none."""
        start, quote = 1, self.layout.quote
        quoting: Literal[0, 3] = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
        try:
            reader = csv.reader(lines, delimiter=self.separator, quotechar=quote, quoting=quoting, strict=True)
            for cells in reader:
                if cells or start == 1:
                    yield reader.line_num, cells
                start = reader.line_num + 1
        except UnicodeError:
            if self._is_utf8:
                raise NotUtf8(f"line {_first_broken(self.file)}") from None
            raise NotUtf8(f"a line after line {start - 1}", self.layout.encoding) from None
        except TypeError as problem:  # about the separator
            raise ValueError(str(problem)) from None
        except csv.Error as problem:
            raise _bad_line(f"line {start}", str(problem)) from None


def _first_broken(file: Path) -> int:
    """The first line that is not UTF-8."""
    with open_regular(file) as lines:
        return next(number for number, line in enumerate(lines, 1) if line.decode(errors="ignore").encode() != line)


def likely_encoding(file: Path) -> str:
    """The encoding of a text that is not UTF-8: UTF-16 begins with a mark, others are usually that of Windows."""
    with open_regular(file) as content:
        start = content.read(LOOKED_AT)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    return "latin1" if set(start) & _NOT_OF_WINDOWS else "cp1252"


def _bad_line(place: str, problem: str) -> BadLine:
    """The fault of a record in the words of a report; `problem` is in those of the module csv."""
    if "unexpected end" in problem or "expected after" in problem:
        return StrayQuote(place, 'has a quote (") that is not closed, or text after a closing quote')
    if "field larger" in problem:
        fact = f'has a cell of more than {csv.field_size_limit():,} characters; perhaps a quote (") is not closed'
        return StrayQuote(place, fact)
    return BadLine(place, f"can't be read: {problem}")
