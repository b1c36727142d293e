"""What a person types to resume a run, and to use the model that it saved."""

from pathlib import Path


def to_resume(folder: Path) -> str:
    return f"leaven resume {folder}"


def to_use(file: Path, *, trust_code: bool) -> str:
    """`trust_code`: whether the bundle has user code in it, which predicting would run."""
    return f"try it: leaven predict {file} photo.jpg{' --trust-code' if trust_code else ''}"
