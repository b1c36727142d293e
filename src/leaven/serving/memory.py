"""How much memory a server keeps of what requests have used.

The C library keeps what is freed, for each thread that has used it, and keeps more the larger the blocks were: some
bodies of 16 MB make a server of 80 MB grow to more than 200 MB, and it never shrinks.
"""

import contextlib
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # the numbers of glibc's settings


def give_back_memory() -> None:
    """Let the C library give large blocks back to the system as soon as they are free. Others have no such settings."""
    with contextlib.suppress(OSError, AttributeError):
        change = ctypes.CDLL(None).mallopt
        for setting, value in ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, 4 << 20), (_TRIM_THRESHOLD, 8 << 20)):
            change(setting, value)
