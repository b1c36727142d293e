"""How many images each folder in a folder has, without listing again those that have not changed.

A file that is added, removed or renamed changes the times of its directory, so they tell whether a directory is as it
was; who sets its modification time back can't set back the time of that. Not remembered is a directory that was changed
so shortly before it was listed that another change might leave the same times, one that can't be read, and one that has
a link to something else than an image: what that leads to may change elsewhere.

What is remembered is in the user's cache, a file for each folder of many images. It is only a memory: where it can't be
read or written, all is listed again.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from leaven.cache.location import are_settled, keep_newest, name_of, user_folder
from leaven.files import sealed
from leaven.files.atomic_files import write_bytes

MANY = 1_000  # fewer images are counted as quickly as they are remembered
_KEPT = 100  # files in the cache

Times = list[int]  # of a directory: inode, modification, change


class Counted(NamedTuple):
    """The images in a folder, however deep, and the names of the folders directly in it."""

    images: int
    folders: tuple[str, ...]


class Directory(NamedTuple):
    """The files and folders directly in a directory. `times` is None where they don't tell whether that is still so."""

    path: str
    files: list[str]
    folders: list[str]
    times: Times | None


class _Remembered(NamedTuple):
    images: int
    folders: list[str]
    directories: dict[str, Times]  # by their path from the folder; '' is the folder itself


def counted(
    folder: Path,
    names: Sequence[str],
    list_below: Callable[[str], Iterable[Directory]],
    is_image: Callable[[str], bool],
) -> dict[str, Counted]:
    """The images in each of some folders in a folder; `list_below` lists a folder and the directories in it."""
    memory = user_folder() / "folders" / f"{name_of(folder)}.json"
    body, found = sealed.read(memory), dict[str, _Remembered | Counted]()
    known = {name: _Remembered(*one) for name, one in json.loads(body).items()} if body is not None else {}
    for name in names:
        place = os.path.join(folder, name)
        old = known.get(name)
        found[name] = (
            old if old is not None and _is_unchanged(place, old) else _count(place, list_below(place), is_image)
        )
    kept = {name: one for name, one in found.items() if isinstance(one, _Remembered)}
    if kept != known and sum(one.images for one in kept.values()) >= MANY:
        with contextlib.suppress(OSError):
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(memory, sealed.seal(json.dumps(kept).encode()))
            keep_newest(memory.parent, "*.json", _KEPT)
    return {name: Counted(one.images, tuple(one.folders)) for name, one in found.items()}


def times_of(status: os.stat_result) -> Times:
    return [status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _is_unchanged(place: str, old: _Remembered) -> bool:
    try:
        return all(times_of(os.stat(os.path.join(place, inside))) == t for inside, t in old.directories.items())
    except OSError:
        return False


def _count(place: str, listed: Iterable[Directory], is_image: Callable[[str], bool]) -> "_Remembered | Counted":
    now = time.time_ns()
    images, top, directories = 0, list[str](), dict[str, Times | None]()
    for directory in listed:
        inside = os.path.relpath(directory.path, place) if directories else ""  # the first one is the folder itself
        images += sum(map(is_image, directory.files))
        top = top if directories else sorted(directory.folders)
        directories[inside] = directory.times
    settled = {
        inside: times for inside, times in directories.items() if times is not None and are_settled(times[1:], now)
    }
    is_certain = len(settled) == len(directories)
    return _Remembered(images, top, settled) if is_certain else Counted(images, tuple(top))
