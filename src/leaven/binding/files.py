"""Files that a recipe names: whether they are there and can be read."""

import os.path
from pathlib import Path

from leaven.binding.scope import Scope
from leaven.catalog.lookup import nearest
from leaven.catalog.values import UNKNOWN, FilePath, Unknown
from leaven.formats.regular import open_regular
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import SourceKind


def is_readable(place: Path) -> bool:
    """Whether a folder or a file that can be read stands at a place."""
    return os.path.exists(place) and (os.path.isdir(place) or _obstacle(place) is None)


def _obstacle(place: Path) -> str | None:
    """Why what stands at a place can't be read as a file; None where it can, or nothing stands there."""
    try:
        open_regular(place).close()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as problem:
        return problem.strerror if os.path.lexists(place) else None
    return None


def missing_file(scope: Scope, path: FilePath, what: str) -> Unknown:
    """Report that a file is not where the recipe says, or can't be read there."""
    if path.span is not None and scope.has_error_in(path.span):
        return UNKNOWN
    if obstacle := _obstacle(path.place):
        place = [Spot(path.span, "can't be read")] if path.span is not None else []
        return scope.report("missing-file", f"can't read {what} `{path.text}`: {obstacle}", *place)
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
        return sorted(neighbour.name for neighbour in place.parent.iterdir() if neighbour != place)[:1000]
    except (OSError, ValueError):
        return []
