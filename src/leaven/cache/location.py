"""Where the user's cache directory is, and what takes its place where it is not writable."""

import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_RACY_NANOSECONDS = 2_000_000_000  # the coarsest times of common file systems


def user_folder() -> Path:
    """The user's cache directory: `LEAVEN_CACHE`, or the platform's."""
    chosen = os.environ.get("LEAVEN_CACHE")
    if not chosen:
        return _platform_caches() / "leaven"
    try:
        return Path(chosen).expanduser().absolute()
    except (RuntimeError, OSError):  # an unknown home, or relative to a folder that was removed
        return temporary_folder()


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
        return temporary_folder()


def temporary_folder() -> Path:
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


def folders() -> Iterator[Path]:
    """Where something may be that was cached, the preferred place first."""
    yield user_folder()
    if folder := _users_temporary_folder():
        yield folder
    if _process_folder.cache_info().currsize:
        yield _process_folder()


def keep_newest(folder: Path, pattern: str, count: int) -> None:
    """Remove the files in a folder of the cache that have not been used for the longest time."""
    for file in sorted(folder.glob(pattern), key=lambda file: -file.lstat().st_mtime)[count:]:
        file.unlink(missing_ok=True)


# -- what is remembered of files and folders


def name_of(folder: Path) -> str:
    """The name in the cache of what is remembered of a folder."""
    return hashlib.blake2b(os.fsencode(os.path.realpath(folder)), digest_size=16).hexdigest()


def are_settled(times: Iterable[int], now: int) -> bool:
    """Whether a change from `now` on would show in these times: they are long enough ago."""
    return max(times) + _RACY_NANOSECONDS <= now
