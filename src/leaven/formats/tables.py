"""What a table of examples is: one file or one for each part, its separator and its encoding.

The checker and the runtime open tables by these rules; which columns they look for, and what they say when one is
missing, is their own.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from leaven.formats.image_folder import PART_NAMES

TABLE_ENDINGS = (".csv", ".tsv")
ENCODING = "utf-8-sig"  # spreadsheets put a byte order mark before the first column


def part_tables(folder: Path) -> dict[str, list[Path]]:
    """The tables of each part that a folder has; more than one is one too many."""
    found = {}
    for part, names in PART_NAMES.items():
        there = [folder / f"{name}{ending}" for name in names for ending in TABLE_ENDINGS]
        found[part] = [file for file in there if os.path.isfile(file)]
    return {part: there for part, there in found.items() if there}


def separator_of(file: Path, told: str | None) -> str:
    """What stands between two columns: what the recipe says, else what the file's ending says."""
    return told or ("\t" if file.suffix.lower() == ".tsv" else ",")


def in_order(labels: Iterable[str]) -> list[str]:
    """Labels in alphabetical order, and numbers as numbers."""
    labels = set(labels)
    if all(label.isdecimal() for label in labels):
        return sorted(labels, key=lambda label: (int(label), label))
    return sorted(labels)
