"""Files that a recipe needs: whether they are there, and what a table holds."""

import os.path
from collections.abc import Sequence
from pathlib import Path

from leaven.catalog.lookup import nearest
from leaven.formats.tables import ENCODING
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import SourceKind
from leaven.recipe.recipe import FilePath
from leaven.recipe.scope import UNKNOWN, Scope, Unknown


def missing_file(scope: Scope, path: FilePath, what: str) -> Unknown:
    """Report that a file is not where the recipe says."""
    if path.span is not None and scope.is_blamed(path.span):
        return UNKNOWN
    near = nearest(path.place.name, _neighbours(path.place))
    fix: Fix | None = None
    if near and path.span is not None:
        better = str(Path(path.text).with_name(near[0]))
        fix = Fix(f"did you mean `{better}`?", Edit(path.span, f'"{better}"'))
    elif path.span is not None and path.text.startswith("~"):
        whole = Path(os.path.expanduser(path.text)).as_posix()
        fix = Fix(f"`~` means nothing here; write the whole path: `{whole}`", Edit(path.span, f'"{whole}"'))
    elif path.span is not None and ("\n" in path.text or "\t" in path.text):
        straight = path.span.text.replace("\\", "/")
        fix = Fix(f"a backslash begins an escape; in a path, write `/`: `{straight}`", Edit(path.span, straight))
    label = "not there" if str(path.place) == path.text else f"`{path.place}` is not there"
    spot = [Spot(path.span, label)] if path.span is not None else []
    notes = [] if path.place.is_absolute() or path.span is None else [_relative_to(path)]
    return scope.report("missing-file", f"{what} `{path.text}` does not exist", *spot, notes=notes, fix=fix)


def _relative_to(path: FilePath) -> str:
    assert path.span is not None
    is_option = path.span.source.kind is SourceKind.OPTION
    return "paths in an option start where you stand" if is_option else "paths in a recipe start at the recipe's folder"


def _neighbours(place: Path) -> list[str]:
    try:
        return sorted(neighbour.name for neighbour in place.parent.iterdir())[:1000]
    except (OSError, ValueError):
        return []


def csv_classes(file: Path, column: str, separator: str) -> tuple[Sequence[str], int | None]:
    """The columns of a table and its number of labels; None where that column is missing or the table very long.

    Raises OSError or ValueError for what is no table.
    """
    import csv

    try:
        with file.open(newline="", encoding=ENCODING, errors="replace") as lines:
            rows = csv.DictReader(lines, delimiter=separator)
            columns = rows.fieldnames or []
            if column not in columns or file.stat().st_size > 50_000_000:
                return columns, None
            return columns, len({(row[column] or "").strip() for row in rows})
    except (csv.Error, TypeError) as problem:  # a TypeError is about the separator
        raise ValueError(str(problem)) from problem
