"""The commands to resume a run or to look at it, and to use the model that it saved.

Each can be pasted into a shell, whatever the names of folders are.
"""

import shlex
from pathlib import Path


def typed(path: Path | str) -> str:
    """A path as it is typed in a shell: with quotes where it needs them."""
    return shlex.quote(str(path))


def to_resume(folder: Path | str) -> str:
    return f"leaven resume {typed(folder)}"


def to_finish(folder: Path) -> str:
    return f"leaven finish {typed(folder)}"


def to_peek(folder: Path) -> str:
    """Saves the best epoch so far, and leaves the run as it is."""
    return f"leaven finish {typed(folder)} -o best.bundle"


def to_use(file: Path, *, trust_code: bool, example: str = "photo.jpg") -> str:
    """`trust_code`: whether the bundle has user code in it, which predicting would run."""
    return f"try it: leaven predict {typed(file)} {example}{' --trust-code' if trust_code else ''}"
