"""The logs of attempts whose folder is on a drive of this machine."""

import os
from pathlib import Path
from typing import NamedTuple

from leaven.files.regular import open_regular
from leaven.jobs.supervisor import LOG

PIECE = 256 * 1024  # bytes of a log that are read at once: a log may be larger than the memory


class Position(NamedTuple):
    """How far a log was read: the number of bytes, and of which file, by its inode (0: whichever it is)."""

    offset: int = 0
    file: int = 0


def read_log(attempt: Path, start: Position, most: int) -> tuple[bytes, Position]:
    """At most that many bytes of an attempt's log, and the position after them; nothing before it has begun.

    A log that was removed, and begun again by its supervisor, is read from its start.
    """
    try:
        with open_regular(attempt / LOG) as file:
            about = os.fstat(file.fileno())
            is_same = start.file in (0, about.st_ino) and start.offset <= about.st_size
            file.seek(start.offset if is_same else 0)
            return file.read(most), Position(file.tell(), about.st_ino)
    except FileNotFoundError:
        return b"", start
