"""A file that can tell whether it is whole: its first line holds the checksum of the rest.

Who finds the checksum right reads what Leaven itself wrote, and needs no other care; anything else counts as absent.
"""

from pathlib import Path
from zlib import crc32

_FORMAT = 1


def seal(body: bytes) -> bytes:
    """The content of a file that keeps these bytes."""
    return _seal_of(body) + b"\n" + body


def read(file: Path) -> bytes | None:
    """The bytes that a sealed file keeps; None where it is missing, damaged or of another format."""
    try:
        head, _, body = file.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body if head == _seal_of(body) else None


def _seal_of(body: bytes) -> bytes:
    return b'{"format":%d,"checksum":%d}' % (_FORMAT, crc32(body))
