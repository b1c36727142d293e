"""The identity of data, for locks and packages: two that differ are not the same data."""

import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any


def of_samples(outputs: Sequence[str], counts: Mapping[str, int], samples: Iterable[str]) -> dict[str, Any]:
    """The identity of data that is read: its outputs, the sizes of its splits, a hash of its samples in order."""
    names = sha256()
    for sample in samples:
        names.update(f"{sample}\n".encode(errors="replace"))
    return {"outputs": list(outputs), **counts, "samples": names.hexdigest()}


def of_files(places: Sequence[Path]) -> dict[str, str]:
    """The identity of data that is not read: a hash of the names of its files."""
    names = "".join(f"{name}\n" for place in places for name in sorted(_files(place)))
    return {"files": sha256(names.encode(errors="surrogateescape")).hexdigest()} if places else {}


def _files(place: Path) -> list[str]:
    """The names of the files in a folder, without sizes: to ask a drive of a cluster for a million takes minutes.

    For a single file, its name and size.
    """
    if place.is_file():
        return [f"{place.name}:{place.stat().st_size}"]
    folders = ((os.path.relpath(folder, place), names) for folder, _, names in os.walk(place))
    return [f"{folder}/{name}" for folder, names in folders for name in names]
