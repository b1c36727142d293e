"""Rows of cells as lines, each column as wide as its widest cell."""

from collections.abc import Container, Sequence
from itertools import zip_longest

from leaven.terminal.width import columns


def aligned(rows: Sequence[Sequence[str]], numbers: Container[int] = ()) -> list[str]:
    """The lines of a table; the cells of columns with numbers are flush right."""
    widths = [max(map(columns, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(_padded(cell, widths[at], at in numbers) for at, cell in enumerate(row)).rstrip() for row in rows]


def _padded(cell: str, width: int, is_number: bool) -> str:
    space = " " * (width - columns(cell))
    return space + cell if is_number else cell + space
