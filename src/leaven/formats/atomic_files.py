"""Files that are written atomically: a reader sees the old content or the new one, never a part of it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path


def write_atomically(file: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file next to the file, then rename it. Links and permissions are kept.

    A pipe or a terminal is written to directly. Whatever goes wrong is an `OSError`; how it is reported is left to the
    caller.
    """
    file = Path(os.path.realpath(file))
    if file.exists() and not file.is_file():
        write(file)
        return
    mode = file.stat().st_mode if file.exists() else None
    if mode is not None and not (mode & 0o222 and os.access(file, os.W_OK)):
        raise PermissionError(errno.EACCES, "it is marked as read-only")
    temporary = file.with_name(f".{file.name.lstrip('.')}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        write(temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(file: Path, text: str) -> None:
    write_atomically(file, lambda temporary: temporary.write_text(text, encoding="utf-8", newline=""))


def write_bytes(file: Path, content: bytes) -> None:
    write_atomically(file, lambda temporary: temporary.write_bytes(content))
