"""The cache directory: where it is, and how files get into it.

A file or folder appears whole or not at all. What can't be read counts as absent. Where the directory can't be
written, a temporary one takes its place; reading still looks into both, so that an index that was put there beforehand
serves a user who may only read it.
"""

import json
import os
import stat
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any


def user_folder() -> Path:
    """The user's cache directory: `LEAVEN_CACHE`, or what the platform provides."""
    if chosen := os.environ.get("LEAVEN_CACHE"):
        return Path(chosen).expanduser().absolute()
    return _platform_caches() / "leaven"


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


def read(name: str) -> bytes | None:
    """What is kept under a name; None if nothing is, or it can't be read."""
    for place in places(name):
        try:
            return place.read_bytes()
        except OSError:
            continue
    return None


def read_json(name: str) -> Any | None:
    """The value that is kept under a name; None if there is none, or its text is damaged."""
    return parse_json(read(name))


def parse_json(data: bytes | str | None) -> Any | None:
    """The value of a JSON text; None where there is no whole one."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def write_json(name: str, value: Any) -> None:
    """Keeps a value under a name."""
    write(name, json.dumps(value, separators=(",", ":")).encode())


def write(name: str, data: bytes) -> None:
    """Keeps bytes under a name; nothing happens where nothing at all can be written."""
    for folder in (user_folder, _temporary_folder):
        try:
            return _write_whole(folder() / name, data)
        except OSError:
            continue


def _write_whole(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{unique()}")
    try:
        with beside.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, file)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def staging_folder(name: str) -> Path | None:
    """A new, empty folder beside the place of `name`, to be filled and then published; None if there is no room."""
    for folder in (user_folder, _temporary_folder):
        try:
            staged = folder() / f"{name}.{unique()}"
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


def remove(folder: Path) -> None:
    """Takes a folder out of the way at once, then deletes it; one that can't be touched stays."""
    import shutil

    doomed = folder.with_name(f"{folder.name}.{unique()}")
    try:
        os.rename(folder, doomed)
    except OSError:
        doomed = folder
    shutil.rmtree(doomed, ignore_errors=True)


def unique() -> str:
    """An ending that no other process chooses."""
    return f"{os.getpid()}-{os.urandom(4).hex()}"


def keep_newest(folder: Path, count: int) -> None:
    """Removes all but the newest folders in a folder."""
    try:
        inner = [entry for entry in folder.iterdir() if entry.is_dir()]
        inner.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    except OSError:  # another process is tidying up
        return
    for old in inner[count:]:
        remove(old)
