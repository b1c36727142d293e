"""The cache directory: how files get into it.

Files and folders are written atomically. What can't be read, or is not as it was written, counts as absent. Where the
directory is not writable, a temporary one is used; reads look into both, so that an index that was put into a read-only
directory beforehand is found. What is being written or removed has a name that begins with a dot.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leaven.cache import location
from leaven.files import sealed
from leaven.files.atomic_files import beside, write_bytes

_ABANDONED_SECONDS = 3600.0  # longer than any write takes


def places(name: str) -> Iterator[Path]:
    """Where an entry of that name may be, the preferred place first."""
    return (folder / name for folder in location.folders())


def read_json(name: str) -> Any | None:
    """The value that is cached under a name; None if there is none, or its file is damaged."""
    return next((value for place in places(name) if (value := open_json(place)) is not None), None)


def open_json(file: Path) -> Any | None:
    """The value in a file; None if there is none, or the file is damaged."""
    return parse_json(sealed.read(file))


def parse_json(data: bytes | str | None) -> Any | None:
    """The value of a JSON text; None where it is incomplete."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def write_json(name: str, value: Any) -> None:
    """Caches a value under a name; does nothing where nothing is writable."""
    data = sealed.seal(json.dumps(value, separators=(",", ":")).encode())
    for folder in (location.user_folder, location.temporary_folder):
        try:
            file = folder() / name
            file.parent.mkdir(parents=True, exist_ok=True)
            return write_bytes(file, data)
        except OSError:
            continue


def staging_folder(name: str) -> Path | None:
    """A new, empty folder beside the place of `name`, to be filled and published; None if nothing is writable."""
    for folder in (location.user_folder, location.temporary_folder):
        try:
            staged = beside(folder() / name)
            staged.mkdir(parents=True)
            return staged
        except OSError:
            continue
    return None


def publish(staged: Path, name: str) -> Path:
    """Gives a filled folder its name; where another process was faster, that one's folder is used."""
    place = staged.parent / Path(name).name
    _sync(staged)
    try:
        os.rename(staged, place)
    except OSError:
        if not place.is_dir():
            return staged
        remove(staged)
    _sync(place.parent)
    return place


def _sync(folder: Path) -> None:
    """Syncs the entries of a folder to disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(place: Path) -> None:
    """Renames a folder or file, so that it is gone at once, then deletes it; what can't be deleted stays."""
    import shutil

    doomed = beside(place)
    try:
        os.rename(place, doomed)
    except OSError:
        doomed = place
    if doomed.is_dir() and not doomed.is_symlink():
        shutil.rmtree(doomed, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            doomed.unlink()


def keep_newest(folder: Path, count: int) -> None:
    """Removes all but the newest folders in a folder, and what interrupted processes left there."""
    try:
        ages = {entry: time.time() - entry.lstat().st_mtime for entry in folder.iterdir()}
    except OSError:  # another process is removing, too
        return
    finished = [entry for entry in sorted(ages, key=ages.__getitem__) if entry.is_dir() and entry.name[0] != "."]
    abandoned = [entry for entry, age in ages.items() if entry.name[0] == "." and age > _ABANDONED_SECONDS]
    for old in (*finished[count:], *abandoned):
        remove(old)
