"""What a person types to resume a run or to look at it, and to use the model that it saved."""

from pathlib import Path


def to_resume(folder: Path) -> str:
    return f"leaven resume {folder}"


def to_finish(folder: Path) -> str:
    return f"leaven finish {folder}"


def to_peek(folder: Path) -> str:
    """Saves the best epoch so far, and leaves the run as it is."""
    return f"leaven finish {folder} -o best.bundle"


def to_use(file: Path, *, trust_code: bool) -> str:
    """`trust_code`: whether the bundle has user code in it, which predicting would run."""
    return f"try it: leaven predict {file} photo.jpg{' --trust-code' if trust_code else ''}"
