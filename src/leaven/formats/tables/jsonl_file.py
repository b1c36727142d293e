"""JSON Lines: one object per line, whose keys are the columns."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from leaven.files.regular import open_regular
from leaven.formats.tables import BadLine, NotUtf8, OneList, TableFile

FIRST = 100  # lines whose keys are the columns


class Table(TableFile):
    """A text file with a JSON object in every line. A key that a line lacks is an empty cell; one of an object inside
    of another is joined to it by a dot."""

    ENDINGS: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    SOURCE: ClassVar[str] = "jsonl"

    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys(key for _, row in islice(self._objects(), FIRST) for key in row))

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for place, row in self._objects():
            yield place, tuple(row.get(column) for column in columns)

    def _objects(self) -> Iterator[tuple[str, dict[str, Any]]]:
        with open_regular(self.file) as lines:
            for number, line in enumerate(lines, 1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8", self.errors).strip()
                except UnicodeDecodeError:
                    raise NotUtf8(f"line {number}") from None
                if text:
                    yield f"line {number}", flat(_object(text, number))


def flat(row: dict[str, Any], start: str = "") -> dict[str, Any]:
    """An object without objects inside: `{"meta": {"label": 1}}` has the key `meta.label`."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        found |= flat(value, f"{start}{key}.") if isinstance(value, dict) and value else {f"{start}{key}": value}
    return found


def is_one_list(file: Path) -> bool:
    """Whether a file is one list of objects."""
    try:
        next(Table(file)._objects(), None)
    except (OSError, BadLine) as problem:
        return isinstance(problem, OneList)
    return False


def _object(text: str, number: int) -> dict[str, Any]:
    if number == 1 and (text == "[" or text.startswith("[{")):
        raise OneList("line 1", "begins a list, but each line has to be an object")
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as problem:
        reason = problem.msg if isinstance(problem, json.JSONDecodeError) else "it is nested too deeply"
        raise BadLine(f"line {number}", f"is not valid JSON: {reason}") from None
    except ValueError:
        digits = f"{sys.get_int_max_str_digits():,} digits"
        raise BadLine(f"line {number}", f"has a number with more than {digits}") from None
    if not isinstance(found, dict):
        raise BadLine(f"line {number}", 'is not an object such as {"file": "1.jpg", "label": "ant"}')
    return found
