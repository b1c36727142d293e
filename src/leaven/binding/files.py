"""Files that a recipe names: whether they are there and can be read."""

import os.path
from pathlib import Path

from leaven.binding.scope import Scope
from leaven.catalog.values import UNKNOWN, FilePath, Unknown
from leaven.files.regular import open_regular
from leaven.language.diagnostics import Diagnostic
from leaven.messages import files as messages


def is_readable(place: Path) -> bool:
    """Whether there is a folder, or a file that can be read."""
    return os.path.exists(place) and (os.path.isdir(place) or _obstacle(place) is None)


def _obstacle(place: Path) -> str | None:
    """Why what is there can't be read as a file; None where it can, or where nothing is there."""
    try:
        open_regular(place).close()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as problem:
        return problem.strerror if os.path.lexists(place) else None
    return None


def missing_file(path: FilePath, what: str) -> Diagnostic:
    """The report that a file is not where the recipe says, or can't be read there."""
    if obstacle := _obstacle(path.place):
        return messages.unreadable(path, what, obstacle)
    return messages.missing(path, what)


def report_missing(scope: Scope, path: FilePath, what: str) -> Unknown:
    """Report a missing file, unless its path has an error already."""
    if path.span is not None and scope.has_error_in(path.span):
        return UNKNOWN
    return scope.add(missing_file(path, what))
