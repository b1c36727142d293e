"""The log of an attempt: what its program prints, written as it comes, and limited.

The file only grows, so that all who follow it, by an offset or with `tail -f`, see the same. The first half of the
limit is written as it is printed. From then on, a small share of what is left of the limit may be written per second:
a program that prints little is still followed line by line, of one that prints more the newest lines are written, with
a line that says how much was left out. The last part is always written. Nothing is written that would take room on the
drive that the store of jobs needs. As a part of the supervisor, this uses only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import time

LIMIT = 1_000_000_000  # bytes
ROOM = 100_000_000  # bytes that are left free on the drive

_LAST_PART = 256_000  # bytes that are written at the end, or less where the limit is low
_SHARE = 1 / 60_000  # of what is left of the limit, per second
_FEWEST = 200  # bytes that are worth an excerpt
_PAUSE = 1.0  # seconds between two excerpts


def make_again(folder: str) -> None:
    """Make the folder of an attempt and that of attempts, if they were removed; not that of jobs, which is not ours."""
    for each in (os.path.dirname(folder), folder):
        with contextlib.suppress(FileExistsError):
            os.mkdir(each, 0o700)


class ProgramLog:
    """A log file. `keep` must be called from time to time, so that what waits is written."""

    def __init__(self, file: str, limit: int = LIMIT, room: int = ROOM) -> None:
        self._file = file
        self._room = room
        self._descriptor = self._open()
        self._last_part = min(_LAST_PART, limit // 4)
        self._may_write = float(limit // 2 - os.fstat(self._descriptor).st_size)  # bytes, by now
        self._left = float(limit - limit // 2 - self._last_part)  # bytes that may be written later
        self._waiting = bytearray()  # the newest of what is not written yet
        self._left_out = 0  # bytes before it
        self._looked = self._wrote = time.monotonic()

    def _open(self) -> int:
        make_again(os.path.dirname(self._file))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK  # a pipe in its place would be waited for
        return os.open(self._file, flags, 0o600)

    def add(self, text: bytes) -> None:
        """Write what was printed, or let it wait."""
        self._waiting += text
        self.keep()
        if len(self._waiting) > 2 * self._last_part:
            self._shorten(self._last_part)

    def keep(self) -> None:
        """Write what waits: all of it if that is allowed by now, else its newest lines from time to time."""
        now = time.monotonic()
        more = self._left * min(1.0, _SHARE * (now - self._looked))
        self._left, self._may_write, self._looked = self._left - more, self._may_write + more, now
        if len(self._waiting) > self._may_write:
            if self._may_write < _FEWEST or now < self._wrote + _PAUSE:
                return
            self._shorten(int(self._may_write))
        if self._waiting and self._write_waiting():
            self._wrote = now

    def close(self) -> None:
        """Write the last part."""
        self._shorten(self._last_part)
        self._write_waiting()
        os.close(self._descriptor)

    def _shorten(self, most: int) -> None:
        """Let only the newest of what waits wait on, from the start of a line."""
        start = len(self._waiting) - most
        if start <= 0:
            return
        line = self._waiting.find(b"\n", start, len(self._waiting) - 1)
        start = line + 1 if line >= 0 else start
        self._left_out += start
        del self._waiting[:start]

    def _write_waiting(self) -> bool:
        note = f"\n... {self._left_out:,} bytes were left out ...\n".encode() if self._left_out else b""
        text = note + self._waiting
        if not self._write(text):
            return False
        self._may_write -= len(text)
        self._waiting.clear()
        self._left_out = 0
        return True

    def _write(self, text: bytes) -> bool:
        """Write a text unless the drive is nearly full; whether it was. A file that was removed is made again."""
        with contextlib.suppress(OSError):
            if os.fstat(self._descriptor).st_nlink == 0:
                removed, self._descriptor = self._descriptor, self._open()
                os.close(removed)
            drive = os.fstatvfs(self._descriptor)
            if drive.f_bavail * drive.f_frsize < self._room + len(text):
                return False
            while text:
                text = text[os.write(self._descriptor, text) :]
            return True
        return False
