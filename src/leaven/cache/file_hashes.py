"""Hashes of the content of many files, without reading again those that have not changed.

As in git's index, a table remembers the hash of each file with its size, inode and times of change. Who changes a file
and sets its modification time back can't set back the time of that, so every change is noticed. A file that was changed
so shortly before it was hashed that another change might leave the same times is not remembered. (On Windows, which has
no time of change, a changed file with the same size and its modification time set back is taken for the old one.)

The table is one block of memory and one file: a hash table with linear probing, in rows of six 64-bit numbers, since an
object for each of a million files would take a second to load and hundreds of megabytes. It is only a memory: where it
can't be read or written, files are hashed again.
"""

import contextlib
import hashlib
import os
import struct
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

from leaven.cache.location import are_settled, keep_newest, name_of, user_folder
from leaven.files.atomic_files import write_atomically

_MAGIC = b"hashes 1"
_HEADER = struct.Struct("=8sQQ")  # magic, checksum of all that follows, number of rows in use
_AFTER_CHECKSUM = 16
_WORDS = 6  # of a row: key, size, modification time, change time, and two of the hash
_ROW = 8 * _WORDS
_FEWEST_ROWS = 1024
_MOST_KEY = (1 << 63) - 1

_KEPT = 20  # tables in the cache
_BLOCK = 1 << 18


class FileHashes:
    """The hashes of files, remembered in a table. `files_read` counts the files that had to be read."""

    def __init__(self, table: Path) -> None:
        self.files_read = 0
        self._table = table
        self._memory, self._count = _load(table)
        self._rows = memoryview(self._memory).cast("q")
        self._unsaved = 0
        self._buffer = memoryview(bytearray(_BLOCK))

    def of(self, paths: Iterable[str | os.PathLike[str]]) -> list[bytes]:
        """The hash of each file, of 16 bytes; an `OSError` for one that can't be read."""
        found = []
        for path in paths:
            facts = os.stat(path)
            at = self._find(_key(path, facts))
            rows = self._rows
            is_known = (
                rows[at]
                and rows[at + 1] == facts.st_size
                and rows[at + 2] == facts.st_mtime_ns
                and rows[at + 3] == facts.st_ctime_ns
            )
            found.append(bytes(self._memory[8 * at + 32 : 8 * at + _ROW]) if is_known else self._read(path))
        if 4 * self._unsaved > self._count:  # seldom enough that all writes together are a few times the table
            self.save()
        return found

    def save(self) -> None:
        """Write the table, if it has changed; does nothing where that is not possible."""
        if not self._unsaved:
            return
        checked = _HEADER.pack(_MAGIC, 0, self._count)[_AFTER_CHECKSUM:]
        header = _HEADER.pack(_MAGIC, zlib.crc32(self._memory, zlib.crc32(checked)), self._count)

        def write(file: Path) -> None:
            with file.open("wb") as opened:
                opened.write(header)
                opened.write(self._memory)

        with contextlib.suppress(OSError):
            self._table.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._table, write)
            keep_newest(self._table.parent, "*.table", _KEPT)
        self._unsaved = 0

    def _read(self, path: str | os.PathLike[str]) -> bytes:
        """The hash of a file that is not in the table, or has changed."""
        now = time.time_ns()
        with open(path, "rb", buffering=0) as opened:
            before = os.fstat(opened.fileno())
            hashed = hashlib.sha256()  # which processors compute faster than BLAKE2
            while count := opened.readinto(self._buffer):
                hashed.update(self._buffer[:count])
            after = os.fstat(opened.fileno())
        self.files_read += 1
        digest = hashed.digest()[:16]
        if are_settled((before.st_mtime_ns, before.st_ctime_ns), now) and _times(before) == _times(after):
            self._remember(_key(path, before), before, digest)
        return digest

    def _remember(self, key: int, facts: os.stat_result, digest: bytes) -> None:
        at = self._find(key)
        if not self._rows[at]:
            self._count += 1
        self._rows[at : at + _WORDS] = memoryview(struct.pack("=4q16s", key, *_times(facts), digest)).cast("q")
        self._unsaved += 1
        if 5 * self._count > 4 * len(self._rows) // _WORDS:
            self._grow()

    def _find(self, key: int) -> int:
        """Where the row of a key is, or an empty one for it."""
        rows = self._rows
        end = len(rows)
        at = key % (end // _WORDS) * _WORDS
        while rows[at] and rows[at] != key:
            at += _WORDS
            if at == end:
                at = 0
        return at

    def _grow(self) -> None:
        old = self._rows
        self._memory = bytearray(len(self._memory) * 3 // 2 // _ROW * _ROW)
        self._rows = memoryview(self._memory).cast("q")
        for at in range(0, len(old), _WORDS):
            if old[at]:
                new = self._find(old[at])
                self._rows[new : new + _WORDS] = old[at : at + _WORDS]


def hashes_in(folder: Path) -> FileHashes:
    """The hashes of the files of a dataset, whose table is in the user's cache."""
    return FileHashes(user_folder() / "hashes" / f"{name_of(folder)}.table")


def _key(path: str | os.PathLike[str], facts: os.stat_result) -> int:
    """The key of a file: its inode, and its path, since files on different drives may have the same inode."""
    return (zlib.crc32(os.fsencode(path)) << 31 ^ facts.st_ino) & _MOST_KEY or 1


def _times(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _load(table: Path) -> tuple[bytearray, int]:
    """The rows of a table and how many are in use; an empty one where it is missing or damaged."""
    try:
        with table.open("rb", buffering=0) as opened:
            header = opened.read(_HEADER.size)
            memory = bytearray(os.fstat(opened.fileno()).st_size - _HEADER.size)
            length = opened.readinto(memory)
            magic, checksum, count = _HEADER.unpack(header)
            is_whole = length == len(memory) and zlib.crc32(memory, zlib.crc32(header[_AFTER_CHECKSUM:])) == checksum
        if magic == _MAGIC and is_whole and memory and not len(memory) % _ROW:
            with contextlib.suppress(OSError):
                os.utime(table)
            return memory, count
    except (OSError, ValueError, struct.error):
        pass
    return bytearray(_FEWEST_ROWS * _ROW), 0
