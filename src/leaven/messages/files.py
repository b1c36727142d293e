"""Reports about files that a recipe names."""

import os.path
import re
from pathlib import Path

from leaven.catalog.lookup import nearest
from leaven.catalog.value_text import quoted
from leaven.catalog.values import FilePath
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Fix, write
from leaven.language.source import SourceKind, Span
from leaven.messages.published_weights import by_tag
from leaven.messages.suggestions import similar


def unreadable(path: FilePath, what: str, obstacle: str) -> Diagnostic:
    return error("missing-file", f"can't read {what} `{path.text}`: {obstacle}", (path, "can't be read"))


def missing(path: FilePath, what: str) -> Diagnostic:
    headline = f"{what} `{path.text}` does not exist"
    if path.span is None:
        return error("missing-file", headline)
    is_option = path.span.source.kind is SourceKind.OPTION
    start = "the current folder" if is_option else "the recipe's folder"
    where = "a path in an option" if is_option else "a path in a recipe"
    label = "not found" if str(path.place) == path.text else f"`{path.place}` not found"
    notes = [] if path.place.is_absolute() or _on_a_drive(path.text) else [f"{where} is relative to {start}"]
    return error("missing-file", headline, (path, label), notes=notes, fix=_fix(path))


def output_is_a_file(path: FilePath) -> Diagnostic:
    headline = f"the output `{path.text}` is a file that already exists"
    fix = "name a folder; it is created if it does not exist"
    return error("wrong-value", headline, (path, "runs are written to a folder"), fix=fix)


def _on_a_drive(text: str) -> re.Match[str] | None:
    """A path of Windows, on another system: its drive, and the rest."""
    return re.match(r"([A-Za-z]):[\\/]+(.*)", text, re.DOTALL) if os.name != "nt" else None


def _fix(path: FilePath) -> Fix | str | None:
    assert path.span is not None
    if drive := _on_a_drive(path.text):
        mounted = f"/mnt/{drive[1].lower()}/" + drive[2].replace("\\", "/")
        return f"`{drive[1]}:` is a Windows drive; in WSL, the path is `{mounted}`"
    if fix := by_tag(path.span, path.text):
        return fix
    near = nearest(path.place.name, neighbours(path.place))
    if near:
        better = str(Path(path.text).with_name(near[0]))
        return similar(path.span, [_as_written(better, path.span)])
    if path.text.startswith("~"):
        whole = Path(os.path.expanduser(path.text)).as_posix()
        return write(path.span, _as_written(whole, path.span), "`~` is not expanded; write the full path: ")
    if "\n" in path.text or "\t" in path.text:
        better = path.span.text.replace("\\", "/")
        return write(path.span, better, "a backslash starts an escape sequence; use `/` in paths: ")
    return None


def _as_written(path: str, span: Span) -> str:
    """A path as it is written there: in quotes, unless it is an option of its own."""
    return quoted(path) if span.text.startswith('"') else path


def neighbours(place: Path, ending: str = "") -> list[str]:
    """The names of other files beside one; none where their folder can't be read."""
    try:
        return sorted(one.name for one in place.parent.iterdir() if one != place and one.name.endswith(ending))[:1000]
    except (OSError, ValueError):
        return []
