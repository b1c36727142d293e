"""The cache directory: where it is, and how files get into it.

Files and folders are written atomically. What can't be read, or is not as it was written, counts as absent. Where the
directory is not writable, a temporary one is used; reads look into both, so that an index that was put into a read-only
directory beforehand is found. What is being written or removed has a name that begins with a dot.
"""

import contextlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from leaven.formats import sealed
from leaven.formats.atomic_files import write_atomically

_ABANDONED_SECONDS = 3600.0  # longer than any write takes


def user_folder() -> Path:
    """The user's cache directory: `LEAVEN_CACHE`, or the platform's."""
    chosen = os.environ.get("LEAVEN_CACHE")
    if not chosen:
        return _platform_caches() / "leaven"
    try:
        return Path(chosen).expanduser().absolute()
    except (RuntimeError, OSError):  # an unknown home, or relative to a folder that was removed
        return _temporary_folder()


def _platform_caches() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else _home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return Path(xdg) if os.path.isabs(xdg) else _home() / ".cache"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor a known user
        return _temporary_folder()


def _temporary_folder() -> Path:
    """Used where the cache directory is not writable: the user's own temporary one, else one of this process."""
    return _users_temporary_folder(may_create=True) or _process_folder()


def _users_temporary_folder(may_create: bool = False) -> Path | None:
    """A directory that outlives this process and that nobody else can write into."""
    import tempfile

    if sys.platform == "win32":
        return None  # there, a directory's mode does not say who may write into it
    try:
        folder = Path(tempfile.gettempdir(), f"leaven-{os.geteuid()}")
        if may_create and not os.path.lexists(folder):
            folder.mkdir(mode=0o700, exist_ok=True)  # another process of the user may create it at the same time
        found = folder.lstat()
    except OSError:
        return None
    is_ours_alone = found.st_uid == os.geteuid() and found.st_mode & 0o777 == 0o700
    return folder if stat.S_ISDIR(found.st_mode) and is_ours_alone else None


@cache
def _process_folder() -> Path:
    """A directory of this process, removed when it ends."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="leaven-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def is_temporary(place: Path) -> bool:
    """Whether a place is removed when this process ends."""
    return bool(_process_folder.cache_info().currsize) and place.is_relative_to(_process_folder())


def places(name: str) -> Iterator[Path]:
    """Where an entry of that name may be, the preferred place first."""
    yield user_folder() / name
    if folder := _users_temporary_folder():
        yield folder / name
    if _process_folder.cache_info().currsize:
        yield _process_folder() / name


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
    for folder in (user_folder, _temporary_folder):
        try:
            file = folder() / name
            file.parent.mkdir(parents=True, exist_ok=True)
            return write_atomically(file, lambda temporary: temporary.write_bytes(data))
        except OSError:
            continue


def staging_folder(name: str) -> Path | None:
    """A new, empty folder beside the place of `name`, to be filled and published; None if nothing is writable."""
    for folder in (user_folder, _temporary_folder):
        try:
            staged = _aside(folder() / name)
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
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def remove(place: Path) -> None:
    """Renames a folder or file, so that it is gone at once, then deletes it; what can't be deleted stays."""
    import shutil

    doomed = _aside(place)
    try:
        os.rename(place, doomed)
    except OSError:
        doomed = place
    if doomed.is_dir() and not doomed.is_symlink():
        shutil.rmtree(doomed, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            doomed.unlink()


def _aside(place: Path) -> Path:
    """A path beside a place that no other process uses."""
    return place.with_name(f".{place.name.lstrip('.')}.{os.getpid()}-{os.urandom(4).hex()}")


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
