"""The cache directory: where it is, and how files get into it.

A file or folder appears whole or not at all. What can't be read, or is not as it was written, counts as absent. Where
the directory can't be written, a temporary one takes its place; reading still looks into both, so that an index that
was put there beforehand serves a user who may only read it. What is being written or removed has a name that begins
with a dot.
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

_LEFT_BEHIND_SECONDS = 3600.0  # longer than any writing takes


def user_folder() -> Path:
    """The user's cache directory: `LEAVEN_CACHE`, or what the platform provides."""
    chosen = os.environ.get("LEAVEN_CACHE")
    if not chosen:
        return _platform_caches() / "leaven"
    try:
        return Path(chosen).expanduser().absolute()
    except (RuntimeError, OSError):  # the home of nobody, or relative to a folder that is gone
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
    except RuntimeError:  # neither HOME nor a user that the system knows
        return _temporary_folder()


def _temporary_folder() -> Path:
    """What takes the place of the cache directory: the user's own temporary one, else one of this process alone."""
    return _users_temporary_folder(may_make=True) or _passing_folder()


def _users_temporary_folder(may_make: bool = False) -> Path | None:
    """A directory that lasts longer than this process and that nobody else can have put anything into."""
    import tempfile

    if sys.platform == "win32":
        return None  # what a directory's mode says there is not who may write into it
    try:
        folder = Path(tempfile.gettempdir(), f"leaven-{os.geteuid()}")
        if may_make and not os.path.lexists(folder):
            folder.mkdir(mode=0o700, exist_ok=True)  # another process of the user's may make it at the same time
        found = folder.lstat()
    except OSError:
        return None
    is_ours_alone = found.st_uid == os.geteuid() and found.st_mode & 0o777 == 0o700
    return folder if stat.S_ISDIR(found.st_mode) and is_ours_alone else None


@cache
def _passing_folder() -> Path:
    """A directory of this process alone, removed when it ends."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="leaven-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def is_passing(place: Path) -> bool:
    """Whether a place is gone when this process ends."""
    return bool(_passing_folder.cache_info().currsize) and place.is_relative_to(_passing_folder())


def places(name: str) -> Iterator[Path]:
    """Where something of that name may be, the best place first."""
    yield user_folder() / name
    if folder := _users_temporary_folder():
        yield folder / name
    if _passing_folder.cache_info().currsize:
        yield _passing_folder() / name


def read_json(name: str) -> Any | None:
    """The value that is kept under a name; None if there is none, or its file is damaged."""
    return next((value for place in places(name) if (value := open_json(place)) is not None), None)


def open_json(file: Path) -> Any | None:
    """The value that a file keeps; None if there is none, or the file is damaged."""
    return parse_json(sealed.read(file))


def parse_json(data: bytes | str | None) -> Any | None:
    """The value of a JSON text; None where there is no whole one."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def write_json(name: str, value: Any) -> None:
    """Keeps a value under a name; nothing happens where nothing at all can be written."""
    data = sealed.seal(json.dumps(value, separators=(",", ":")).encode())
    for folder in (user_folder, _temporary_folder):
        try:
            file = folder() / name
            file.parent.mkdir(parents=True, exist_ok=True)
            return write_atomically(file, lambda temporary: temporary.write_bytes(data))
        except OSError:
            continue


def staging_folder(name: str) -> Path | None:
    """A new, empty folder beside the place of `name`, to be filled and then published; None if there is no room."""
    for folder in (user_folder, _temporary_folder):
        try:
            staged = _aside(folder() / name)
            staged.mkdir(parents=True)
            return staged
        except OSError:
            continue
    return None


def publish(staged: Path, name: str) -> Path:
    """Gives a filled folder its name; where another process was faster, its folder is taken instead."""
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
    """Makes sure that the names in a folder are on the disk, where the system can."""
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
    """Takes a folder, or what stands in its place, out of the way at once, then deletes it; what can't be stays."""
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
    """A name beside a place that no other process chooses."""
    return place.with_name(f".{place.name.lstrip('.')}.{os.getpid()}-{os.urandom(4).hex()}")


def keep_newest(folder: Path, count: int) -> None:
    """Removes all but the newest folders in a folder, and what processes left behind that were ended too soon."""
    try:
        ages = {entry: time.time() - entry.lstat().st_mtime for entry in folder.iterdir()}
    except OSError:  # another process is tidying up
        return
    finished = [entry for entry in sorted(ages, key=ages.__getitem__) if entry.is_dir() and entry.name[0] != "."]
    left_behind = [entry for entry, age in ages.items() if entry.name[0] == "." and age > _LEFT_BEHIND_SECONDS]
    for old in (*finished[count:], *left_behind):
        remove(old)
