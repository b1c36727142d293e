"""Reading a recipe's file: bytes to `Source`, with a report for whatever is not a text."""

import os.path
from pathlib import Path
from typing import BinaryIO

from leaven.formats.regular import open_regular
from leaven.language.diagnostics import Diagnostic, Fix, Spot, error
from leaven.language.parser import MAX_CHARACTERS
from leaven.language.source import Source, SourceKind

MAX_BYTES = 4 * MAX_CHARACTERS  # no character takes more in UTF-8
_DESCRIPTORS = (Path("/dev/fd"), Path("/proc/self/fd"))  # what a shell puts in the place of `<(command)`
_STANDARD_INPUT = Path("/dev/stdin")


def read_source(path: Path, shown: str | None = None, kind: SourceKind = SourceKind.RECIPE) -> Source | Diagnostic:
    """The text of a recipe file, named as the user named it."""
    name = shown or str(path)
    try:
        with _open(path, kind) as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return _no_recipe(name, path, "there is no such file")
    except (OSError, ValueError) as problem:
        return _no_recipe(name, path, getattr(problem, "strerror", None) or str(problem))
    return decode(content, name, path.parent, kind)


def _open(path: Path, kind: SourceKind) -> BinaryIO:
    """A recipe's file. The one that the user names may also come through a pipe that is open already."""
    is_open = path.parent in _DESCRIPTORS or path == _STANDARD_INPUT
    return path.open("rb") if is_open and kind is SourceKind.RECIPE else open_regular(path)


def decode(content: bytes, name: str, folder: Path, kind: SourceKind = SourceKind.RECIPE) -> Source | Diagnostic:
    """The text of a recipe's bytes."""
    if len(content) > MAX_BYTES:
        return error("too-large", f"`{name}` is larger than {MAX_CHARACTERS:,} characters, the limit of a recipe")
    if b"\0" in content:
        return error("not-text", f"`{name}` is a binary file, not a recipe", fix="a recipe is plain text in UTF-8")
    try:
        return Source(name, content.decode("utf-8-sig"), folder, kind)
    except UnicodeDecodeError as problem:
        readable = content[: problem.start].decode("utf-8-sig")
        source = Source(name, readable + "\ufffd", folder, kind)
        return error(
            "not-text",
            f"`{name}` is not UTF-8",
            Spot(
                source.span(len(readable), len(readable) + 1), f"the byte 0x{content[problem.start]:02X} can't be read"
            ),
            fix="save the file as UTF-8",
        )


def _no_recipe(name: str, path: Path, reason: str) -> Diagnostic:
    return error("missing-file", f"can't read the recipe `{name}`: {reason}", fix=_other_recipe(path))


def _other_recipe(path: Path) -> Fix | None:
    """What may have been meant by a path that leads to no recipe; nothing where the file is there."""
    is_folder = os.path.isdir(path)
    if os.path.lexists(path) and not is_folder:
        return None
    try:
        others = sorted(found.name for found in (path if is_folder else path.parent).glob("*.leaven"))
    except (OSError, ValueError):
        others = []
    from difflib import get_close_matches  # needed only here, where speed does not matter

    if near := get_close_matches(path.name, others, n=1):
        return Fix(f"did you mean `{near[0]}`?")
    if others:
        return Fix("the recipes there are " + ", ".join(f"`{other}`" for other in others[:3]))
    return None if is_folder else Fix("`leaven new` writes a first recipe")
