"""What a person types to go on with a run, and to use what it made.

A program that needs no Leaven has the functions of `commands_alone.py` in place of these.
"""

from pathlib import Path


def to_resume(folder: Path) -> str:
    return f"leaven resume {folder}"


def to_use(made: Path, *, trust_code: bool) -> str:
    """`trust_code`: whether the model is made by code of the user's, which predicting would run."""
    return f"ask it: leaven predict {made} photo.jpg{' --trust-code' if trust_code else ''}"
