"""The file of an entry of the store: its header, its data, and a checksum over both.

    8 bytes   magic, with the version of this format
    4         checksum (CRC-32) of the data and of what follows of the header
    4         bytes of the header, a multiple of 64
    8         bytes of the data
    …         JSON in UTF-8: the key, and what the entry is; spaces up to the end of the header
    …         the data

CRC-32 finds every flipped byte, and is the fastest checksum of the standard library: as fast as memory is read.
"""

import json
import mmap
import os
import struct
import sys
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

_MAGIC = b"leaven 1"
_FIXED = struct.Struct("<8sIIQ")
_AFTER_CHECKSUM = 12
_ALIGNMENT = 64
_LONGEST_HEADER = 1 << 20
_BLOCK = 1 << 20


class Damaged(OSError):
    """The file is not as it was written."""


@dataclass(frozen=True)
class Header:
    """The header of an entry, as it is in its file."""

    about: dict[str, Any]
    raw: bytes
    checksum: int


@dataclass(frozen=True, eq=False)
class Entry:
    """An open entry. Its data is read-only, aligned to 64 bytes, and in memory only as far as it has been read."""

    key: str
    about: dict[str, Any]
    data: memoryview
    _mapped: mmap.mmap

    @property
    def bytes(self) -> int:
        """The size of its file."""
        return len(self._mapped)

    def forget_pages(self) -> None:
        """Give the memory of the data back to the system; it is read from the file again when it is needed."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


def write(opened: BinaryIO, key: str, about: Mapping[str, Any], parts: Iterable[bytes | memoryview]) -> int:
    """Write a whole entry to a new file, and to disk; returns how many bytes it has."""
    text = json.dumps({"key": key, "about": dict(about)}, ensure_ascii=False).encode()
    size = -(-(_FIXED.size + len(text)) // _ALIGNMENT) * _ALIGNMENT
    if size > _LONGEST_HEADER:
        raise ValueError("the description of an entry is too long")
    opened.seek(size)
    length, checksum = 0, 0
    for part in parts:
        block = memoryview(part).cast("B")
        opened.write(block)
        checksum = zlib.crc32(block, checksum)
        length += len(block)
    raw = _FIXED.pack(_MAGIC, 0, size, length) + text.ljust(size - _FIXED.size)
    checksum = zlib.crc32(raw[_AFTER_CHECKSUM:], checksum)
    opened.seek(0)
    opened.write(_FIXED.pack(_MAGIC, checksum, size, length) + raw[_FIXED.size :])
    opened.flush()
    os.fsync(opened.fileno())
    return size + length


def read_header(opened: BinaryIO, key: str) -> Header:
    """The header of an entry; `Damaged` if it can't be read, or does not fit the file's name or length."""
    try:
        opened.seek(0)
        start = opened.read(_FIXED.size)
        if len(start) < _FIXED.size:
            raise Damaged
        magic, checksum, size, length = _FIXED.unpack(start)
        if magic != _MAGIC or not _FIXED.size <= size <= _LONGEST_HEADER or size % _ALIGNMENT:
            raise Damaged
        raw = start + opened.read(size - _FIXED.size)
        if os.fstat(opened.fileno()).st_size != size + length:
            raise Damaged
        said = json.loads(raw[_FIXED.size :])
        if said["key"] != key or not isinstance(said["about"], dict):
            raise Damaged
    except (OSError, ValueError, RecursionError, TypeError, KeyError) as problem:
        raise Damaged from problem
    return Header(said["about"], raw, checksum)


def read_checked_header(opened: BinaryIO, key: str) -> Header:
    """The header of an entry that is as it was written; `Damaged` otherwise.

    The file is read, not mapped: a disk that fails is then an error, and not the end of the process.
    """
    header = read_header(opened, key)
    checksum, buffer = 0, memoryview(bytearray(_BLOCK))
    try:
        while count := opened.readinto(buffer):  # type: ignore[attr-defined]
            checksum = zlib.crc32(buffer[:count], checksum)
    except OSError as problem:
        raise Damaged from problem
    if zlib.crc32(header.raw[_AFTER_CHECKSUM:], checksum) != header.checksum:
        raise Damaged
    return header


def map_entry(opened: BinaryIO, key: str, header: Header) -> Entry:
    """The entry in a file, mapped into memory; the file may be closed."""
    _allow_open_files()
    mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    return Entry(key, header.about, memoryview(mapped)[len(header.raw) :], mapped)


def _allow_open_files() -> None:
    """Raise this process's limit of open files as far as the system allows: each mapped file counts as one."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS has another limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
