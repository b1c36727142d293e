"""The names of inputs in reports."""

import os
from typing import Any

LONGEST_NAME = 200  # letters


def name_of(given: Any, noun: str, number: int = 0) -> str:
    """The path, the text, or the place among the others; `noun` is what the model is given, in a word."""
    if isinstance(given, str) and ("\n" in given or len(given) > LONGEST_NAME):
        return f"“{given[:LONGEST_NAME].strip()}…”"
    if isinstance(given, list | tuple):
        return f"pair {number + 1}"
    return os.fspath(given) if isinstance(given, str | os.PathLike) else f"{noun} {number + 1}"
