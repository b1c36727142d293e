"""What is remembered of files and folders: under which name, and when their times tell that nothing has changed."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

_RACY_NANOSECONDS = 2_000_000_000  # the coarsest times of common file systems


def name_of(folder: Path) -> str:
    """The name in the cache of what is remembered of a folder."""
    return hashlib.blake2b(os.fsencode(os.path.realpath(folder)), digest_size=16).hexdigest()


def are_settled(times: Iterable[int], now: int) -> bool:
    """Whether a change from `now` on would show in these times: they are long enough ago."""
    return max(times) + _RACY_NANOSECONDS <= now
