"""Files that are written atomically: a reader sees the old content or the new one, never a part of it."""

import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o600  # permissions of a file that is nobody else's business
_TEMPORARY = re.compile(r"\.(.+)\.\d+-[0-9a-f]{8}")


def write_atomically(file: Path, write: Callable[[Path], object], new_mode: int | None = None) -> None:
    """Let `write` fill a temporary file next to the file, then rename it. Links and permissions are kept.

    A new file has the permissions `new_mode`, if they are given, from its first byte.

    A pipe or a terminal is written to directly, unless there is `new_mode`: what is private is written to files alone.
    Whatever goes wrong is an `OSError`; how it is reported is left to the caller.
    """
    file = Path(os.path.realpath(file))
    if file.exists() and not file.is_file():
        if new_mode is not None:
            raise OSError(errno.EINVAL, "it is not a file", str(file))
        write(file)
        return
    mode = file.stat().st_mode if file.exists() else None
    if mode is not None and not (mode & 0o222 and os.access(file, os.W_OK)):
        raise PermissionError(errno.EACCES, "it is marked as read-only")
    temporary = beside(file)
    try:
        if new_mode is not None:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, new_mode))
        write(temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def beside(place: Path) -> Path:
    """A path beside a place that no other process uses; its name begins with a dot."""
    return place.with_name(f".{place.name.lstrip('.')}.{os.getpid()}-{os.urandom(4).hex()}")


def write_text(file: Path, text: str, new_mode: int | None = None) -> None:
    write_atomically(file, lambda temporary: temporary.write_text(text, encoding="utf-8", newline=""), new_mode)


def write_bytes(file: Path, content: bytes, new_mode: int | None = None) -> None:
    write_atomically(file, lambda temporary: temporary.write_bytes(content), new_mode)


def remove_unfinished(folder: Path, endings: tuple[str, ...]) -> None:
    """Remove what a process that was killed has left of such files; none may be writing them now."""
    for file in folder.iterdir():
        written = _TEMPORARY.fullmatch(file.name)
        if written is not None and written[1].endswith(endings):
            with suppress(OSError):
                file.unlink()
