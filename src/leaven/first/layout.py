"""How a table is laid out in a text file: its encoding, separator and quotes, and whether it has a header.

Decides by the file's content, for `leaven new`; a recipe then says it, and nothing is guessed when it is read.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from leaven.files.regular import open_regular
from leaven.first.options import Guess, NotUnderstood, TableOptions
from leaven.first.roles import NAMES_IN_HEADER
from leaven.formats.numerals import MARKS, number_in
from leaven.formats.tables import Layout, StrayQuote
from leaven.formats.tables.csv_file import Table, likely_encoding

SEPARATORS = (",", "\t", ";", "|")
MOST = 50_000_000  # bytes that are looked at
LINES = 300  # that tell the separator
ROWS = 500  # that tell the header
LONG = 60  # characters, of which no name of a column is


def look_at_layout(file: Path, options: TableOptions) -> tuple[Layout, Guess | None]:
    """The layout of a table, and the guess whether it has a header, where that is not certain."""
    encoding = options.encoding or _encoding(file)
    lines = _lines(file, encoding)
    usual = "\t" if file.suffix.lower() == ".tsv" else ","
    separator = options.separator or _separator(lines, usual)
    layout = Layout(None if separator == usual else separator, False, (), '"', encoding)
    layout = layout._replace(quote=_quote(file, layout, options.quote))
    rows = _rows(lines, separator, layout.quote)
    if options.header is not None or options.columns:
        return layout._replace(header=bool(options.header), columns=options.columns), None
    has_header, is_sure = _header(rows)
    explanation = "the first line names the columns" if has_header else "the first line is a row, not a header"
    guess = Guess("header", has_header, ("yes", "no"), explanation)
    return layout._replace(header=has_header), None if is_sure else guess


def _encoding(file: Path) -> str:
    with open_regular(file) as content:
        start = content.read(MOST)
    if b"\0" in start[:1000] and start[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise NotUnderstood(f"{file} is not a text file")
    try:
        start[: start.rfind(b"\n") + 1 or len(start)].decode()
    except UnicodeDecodeError:
        return likely_encoding(file)
    return "utf-8"


def _lines(file: Path, encoding: str) -> list[str]:
    """The first lines, without empty ones."""
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        with io.TextIOWrapper(open_regular(file), encoding=encoding, newline="") as content:
            lines = list(islice((line for line in content if line.strip()), max(LINES, ROWS)))
    except (LookupError, UnicodeError):
        raise NotUnderstood(f"{file} is not {encoding} text; name its encoding with --encoding") from None
    if not lines:
        raise NotUnderstood(f"{file} is empty")
    return lines


def _rows(lines: Sequence[str], separator: str, quote: str | None) -> list[list[str]]:
    """The cells of lines; quotes that are not closed are no error here."""
    quoting: Literal[0, 3] = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
    try:
        found = list(csv.reader(lines, delimiter=separator, quotechar=quote, quoting=quoting))
    except csv.Error:
        return []
    return [[cell.strip() for cell in row] for row in found if row]


def _evenness(lines: Sequence[str], separator: str, quote: str | None) -> float:
    """The share of rows that have as many cells as most have; 0 where that is one cell."""
    widths = Counter(map(len, _rows(lines, separator, quote)))
    if not widths:
        return 0.0
    width, count = widths.most_common(1)[0]
    return count / widths.total() if width > 1 else 0.0


def _separator(lines: Sequence[str], usual: str) -> str:
    """The separator by which the rows have the same number of cells; the usual one where none does better."""
    some = lines[:LINES]
    evenness = {mark: max(_evenness(some, mark, '"'), _evenness(some, mark, None)) for mark in SEPARATORS}
    best = max(SEPARATORS, key=lambda mark: (evenness[mark], mark == usual))
    if not any(evenness.values()) and _evenness(some, " ", None) == 1:
        return " "  # as in lists of files with their labels; texts would not have equal numbers of words
    return best if evenness[best] > max(evenness[usual], 0.5) else usual


def _quote(file: Path, layout: Layout, given: str | None) -> str | None:
    """The character around cells; None where quotes are part of the text, as they don't enclose cells."""
    if given is not None:
        return None if given.lower() == "none" else given
    if os.path.getsize(file) > MOST:
        return layout.quote
    table = Table(file, layout)
    try:
        for _ in table.rows(()):
            pass
    except StrayQuote:
        return None if _is_even_without_quotes(file, layout) else layout.quote
    swallowed = any("quote" in doubt.fact for doubt in table.doubts)
    return None if swallowed and _is_even_without_quotes(file, layout) else layout.quote


def _is_even_without_quotes(file: Path, layout: Layout) -> bool:
    lines = _lines(file, layout.encoding)
    separator = layout.separator or Table(file, layout).separator
    return _evenness(lines, separator, None) > 0.99


def _header(rows: Sequence[Sequence[str]]) -> tuple[bool, bool]:
    """Whether the first line names the columns, and whether that is certain."""
    first, rest = rows[0], rows[1:]
    named = [cell for cell in first if cell]
    if not rest:
        return True, True  # a table without rows is reported as one
    if not named or len(set(named)) < len(named) or any(len(cell) > LONG or _is_number(cell) for cell in named):
        return False, bool(named)
    columns = [[row[at] for row in rest if at < len(row) and row[at]] for at in range(len(first))]
    if any(name in cells for name, cells in zip(first, columns, strict=True) if name):
        return False, True  # what is above a column is a value of it
    if {cell.lower().replace(" ", "_").replace("-", "_") for cell in named} & NAMES_IN_HEADER:
        return True, True
    names_columns = (
        cells
        and (
            _share(cells, _is_number) > 0.9
            or (" " not in name and _share(cells, lambda cell: cell.count(" ") >= 2) > 0.9)
        )
        for name, cells in zip(first, columns, strict=True)
    )
    return True, any(names_columns)


def _share(cells: Sequence[str], holds: Callable[[str], bool]) -> float:
    return sum(map(holds, cells)) / len(cells)


def _is_number(cell: str) -> bool:
    return any(number_in(cell, mark) is not None for mark in MARKS)
