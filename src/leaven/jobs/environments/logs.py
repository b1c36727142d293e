"""The logs of attempts whose folder is on a drive of this machine."""

from pathlib import Path

from leaven.jobs.supervisor import LOG


def read_log(attempt: Path, offset: int) -> bytes:
    """What an attempt has printed, from an offset on; nothing before it has begun."""
    try:
        with (attempt / LOG).open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return b""
