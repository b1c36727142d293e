"""Locks on files: whether a process holds one."""

import fcntl
import os
from pathlib import Path


def is_held(file: Path) -> bool:
    """Whether a process holds the lock of a file. Asking holds it for microseconds: who takes it tries again."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
