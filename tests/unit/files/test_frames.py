"""Messages over a pipe."""

import io
import pickle

import pytest

from leaven.files.frames import HEAD, MOST_JSON, BadFrame, Frame, encoded, read


def test_a_message_is_read_as_it_was_sent() -> None:
    sent = encoded({"a": "😀", "b": [1, None]}, b"\0bytes") + encoded({})
    stream = io.BytesIO(sent)
    assert read(stream) == Frame({"a": "😀", "b": [1, None]}, b"\0bytes")
    assert read(stream) == Frame({})
    assert read(stream) is None


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_message_that_is_cut_off_is_none(cut: int) -> None:
    assert read(io.BytesIO(encoded({"a": 1}, b"12345")[:-cut])) is None


@pytest.mark.parametrize(
    "content", [b"[1]", b"{", b"\xff", pickle.dumps({"a": 1}), b"[" * 100_000], ids=lambda content: repr(content[:9])
)
def test_what_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(BadFrame):
        read(io.BytesIO(HEAD.pack(len(content), 0) + content))


def test_a_message_that_says_it_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadFrame):
        read(io.BytesIO(HEAD.pack(MOST_JSON + 1, 0)))


def test_numbers_that_json_lacks_are_not_sent() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encoded({"a": float("nan")})
