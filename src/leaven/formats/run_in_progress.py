"""Which run is in progress: its process holds a lock on the run's folder, which ends with it, however it ends.

Where the system has no such locks (Windows, some network drives), no run is known to be in progress.
"""

import os
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_held: set[int] = set()  # descriptors


def hold(folder: Path, owner: object) -> bool:
    """Lock a folder for as long as its owner lives; False if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY) if fcntl is not None else None
    if descriptor is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(descriptor)
        return not isinstance(problem, BlockingIOError)  # other problems: the drive has no locks
    _held.add(descriptor)
    weakref.finalize(owner, _release, descriptor)
    return True


def is_in_progress(folder: Path) -> bool:
    """Whether a process is running a run."""
    owner = _Asking()
    return not hold(folder, owner)


class _Asking:
    """Holds a lock until the question is answered."""


def _release(descriptor: int) -> None:
    if descriptor in _held:
        _held.remove(descriptor)
        os.close(descriptor)


def _leave_to_parent() -> None:
    """In a forked process, such as one that loads data: it may live a little longer than the run."""
    for descriptor in list(_held):
        _release(descriptor)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
