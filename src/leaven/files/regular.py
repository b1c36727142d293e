"""Opening a file that a name leads to, and nothing that could keep its reader waiting or never end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFDIR: (errno.EISDIR, "it is a folder"),
    stat.S_IFIFO: (errno.EINVAL, "it is a pipe, not a file"),
}
_MOST_BYTES = 50_000_000  # that are read at once: a program may have put anything where Leaven writes far less
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe waits for its writer


def open_regular(path: str | Path, *, follows_links: bool = True) -> BinaryIO:
    """A file, opened to be read. Raises OSError for what is no file, with a `strerror` that says what it is."""
    handle = os.open(path, _FLAGS if follows_links else _FLAGS | getattr(os, "O_NOFOLLOW", 0))
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind == stat.S_IFREG:
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise OSError(*_KINDS.get(kind, (errno.EINVAL, "it is a device, not a file")), str(path))


def read_regular(path: str | Path, most: int = _MOST_BYTES) -> bytes:
    """The content of a file. Raises OSError for what is no file, or has more bytes than `most`."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EINVAL, "it is too large", str(path))
    return content
