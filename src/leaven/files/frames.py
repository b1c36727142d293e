"""Messages over a pipe: an object as JSON and some bytes, with the lengths of both before them; never a pickle."""

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

HEAD = struct.Struct(">II")
MOST_JSON = 64 * 2**20  # bytes
MOST_BODY = 256 * 2**20


class Frame(NamedTuple):
    """One message."""

    content: dict[str, Any]
    body: bytes = b""


class BadFrame(ValueError):
    """What came is not a message."""


def encoded(content: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message as it is sent. Numbers are finite: JSON has no others."""
    text = json.dumps(content, allow_nan=False).encode("ascii")
    if len(text) > MOST_JSON or len(body) > MOST_BODY:
        raise BadFrame(f"a message of {len(text) + len(body):,} bytes is too long")
    return HEAD.pack(len(text), len(body)) + text + body


def lengths(head: bytes) -> tuple[int, int]:
    """The lengths of the JSON and of the bytes that follow."""
    found: tuple[int, int] = HEAD.unpack(head)
    if found[0] > MOST_JSON or found[1] > MOST_BODY:
        raise BadFrame("a message is too long")
    return found


def decoded(text: bytes, body: bytes) -> Frame:
    """The message of these bytes."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadFrame(f"a message is not JSON: {problem}") from None
    if not isinstance(content, dict):
        raise BadFrame("a message is not a JSON object")
    return Frame(content, body)


def read(stream: BinaryIO) -> Frame | None:
    """The next message; None at the end of the pipe."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    length, more = lengths(head)
    text, body = stream.read(length), stream.read(more)
    return decoded(text, body) if (len(text), len(body)) == (length, more) else None
