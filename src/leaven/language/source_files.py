"""Reads recipe files: bytes to `Source`, or a report if they are not text."""

import os.path
from pathlib import Path

from leaven.files.regular import open_regular
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Fix
from leaven.language.parser import MAX_CHARACTERS
from leaven.language.source import Source, SourceKind

MAX_BYTES = 4 * MAX_CHARACTERS  # a character takes at most 4 bytes in UTF-8
_DESCRIPTORS = (Path("/dev/fd"), Path("/proc/self/fd"))  # what a shell replaces `<(command)` with
_STANDARD_INPUT = Path("/dev/stdin")


def read_source(path: Path, name: str, kind: SourceKind = SourceKind.RECIPE) -> Source | Diagnostic:
    """The source of a recipe file, with the name that the user gave."""
    # The recipe that the user names may also be a pipe that is already open.
    is_open = kind is SourceKind.RECIPE and (path.parent in _DESCRIPTORS or path == _STANDARD_INPUT)
    try:
        with path.open("rb") if is_open else open_regular(path) as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        reason = "no such file" if isinstance(problem, FileNotFoundError) else reason
        return error("missing-file", f"can't read the recipe `{name}`: {reason}", fix=_other_recipe(path))
    return decode(content, name, path.parent, kind)


def decode(content: bytes, name: str, folder: Path, kind: SourceKind = SourceKind.RECIPE) -> Source | Diagnostic:
    """The source of a recipe's bytes."""
    if len(content) > MAX_BYTES:
        return error("too-large", f"`{name}` has more than {MAX_CHARACTERS:,} characters, the limit for a recipe")
    if b"\0" in content:
        return error("not-utf8", f"`{name}` is a binary file, not a recipe", fix="a recipe is a text file in UTF-8")
    try:
        return Source(name, content.decode("utf-8-sig"), folder, kind)
    except UnicodeDecodeError as problem:
        readable = content[: problem.start].decode("utf-8-sig")
        source = Source(name, readable + "\ufffd", folder, kind)
        byte = source.span(len(readable), len(readable) + 1)
        label = f"byte 0x{content[problem.start]:02X} is not valid UTF-8"
        return error("not-utf8", f"`{name}` is not in UTF-8", (byte, label), fix="save the file as UTF-8")


def _other_recipe(path: Path) -> Fix | None:
    """The recipes that may have been meant, if there is no such file."""
    is_folder = os.path.isdir(path)
    if path.name and os.path.isfile(f"{path}.leaven"):
        return Fix(f"add the ending: `{path}.leaven`")
    if os.path.lexists(path) and not is_folder:
        return None
    try:
        others = sorted(found.name for found in (path if is_folder else path.parent).glob("*.leaven"))
    except (OSError, ValueError):
        others = []
    from difflib import get_close_matches  # only needed here; importing it takes time

    if near := get_close_matches(path.name, others, n=1):
        return Fix(f"there is `{path.with_name(near[0])}`")
    if others:
        return Fix("recipes in that folder: " + ", ".join(f"`{other}`" for other in others[:3]))
    return Fix(f"write a recipe for it: `leaven new {path}`" if is_folder else "create a recipe with `leaven new`")
