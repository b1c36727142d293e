"""What a table of labels holds."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from leaven.formats.regular import open_regular
from leaven.formats.tables import ENCODING


class Table(NamedTuple):
    """What a table holds; `labels` is None where their column is missing or the table very long."""

    columns: Sequence[str]
    labels: frozenset[str] | None = None
    unlabelled: int | None = None  # the first line without a label


def read_table(file: Path, column: str, separator: str) -> Table:
    """The columns and labels of a table. Raises OSError or ValueError for what is no table."""
    import csv

    try:
        with io.TextIOWrapper(open_regular(file), newline="", encoding=ENCODING, errors="replace") as lines:
            rows = csv.DictReader(lines, delimiter=separator)
            columns = rows.fieldnames or []
            if column not in columns or file.stat().st_size > 50_000_000:
                return Table(columns)
            places: dict[str, int] = {}
            for row in rows:
                places.setdefault((row[column] or "").strip(), rows.line_num)
            unlabelled = places.pop("", None)
            return Table(columns, frozenset(places), unlabelled)
    except (csv.Error, TypeError) as problem:  # a TypeError is about the separator
        raise ValueError(str(problem)) from problem
