"""Facts about files of weights, read without torch: the outputs and transforms of a bundle, the shapes of a safetensors
file.

Decides only what is read; whether a file is intact, and what it can be used for, is decided elsewhere.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaven.files.regular import open_regular
from leaven.formats.run_folder import BUNDLE, newest

_MANIFEST = "bundle.json"
_LONGEST = 16 * 2**20  # bytes
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, NotImplementedError, RuntimeError, EOFError)


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """Facts from the manifest of a bundle. `shape` is that of one prepared input."""

    task: str
    classes: tuple[str, ...]  # what each output means
    built_by: Mapping[str, Any]
    preprocess: Any
    shape: tuple[int, ...]


def is_built_by_code(built_by: Mapping[str, Any]) -> bool:
    """Whether building the model of a bundle runs code that comes with it."""
    return built_by.get("by") in ("own", "changed")


def bundle_facts(place: Path) -> BundleFacts | None:
    """The facts of a bundle, or of that of the newest run in a folder; None where it can't be read."""
    try:
        with open_regular(newest(place, BUNDLE) or place) as stream, zipfile.ZipFile(stream) as archive:
            if archive.getinfo(_MANIFEST).file_size > _LONGEST:
                return None
            found = json.loads(archive.read(_MANIFEST))
        return BundleFacts(
            task=str(found["task"]),
            classes=tuple(str(name) for name in found["target"]["names"]),
            built_by=dict(found["built_by"]),
            preprocess=found["preprocess"],
            shape=tuple(int(side) for side in found["shape"]),
        )
    except (*_UNREADABLE, zipfile.BadZipFile):
        return None


def safetensors_shapes(file: Path) -> dict[str, tuple[int, ...]] | None:
    """The shape of every tensor in a safetensors file; None for what is not one or can't be read."""
    try:
        with open_regular(file) as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length)) if 0 < length <= _LONGEST else None
        if header is None:
            return None
        header.pop("__metadata__", None)
        return {name: tuple(int(side) for side in entry["shape"]) for name, entry in header.items()}
    except _UNREADABLE:
        return None


def normalisation(steps: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Mean and std by which described transforms normalise; empty where they don't, None where nobody knows."""
    found: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    for step in _each(steps):
        match step:
            case {"step": "Normalize", "arguments": {"mean": [*mean], "std": [*std]}}:
                found = (tuple(map(float, mean)), tuple(map(float, std)))
            case {"step": str()}:
                continue
            case _:  # code of the user's own
                return None
    return found


def _each(steps: Any) -> Iterator[Any]:
    """The single transforms of a composed one."""
    match steps:
        case {"step": "Compose", "arguments": {"transforms": [*inner]}}:
            for step in inner:
                yield from _each(step)
        case _:
            yield steps
