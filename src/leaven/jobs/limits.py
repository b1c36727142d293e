"""The cores and the memory that an attempt may use on this machine: by control groups, or without them the next best.

Where no control group can be made, a program is pinned to cores that no other job is pinned to, and its processes are
looked at every second: they are killed when they use too much memory.

A part of the supervisor: it uses only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import time

from leaven.jobs.attempt_processes import descendants, hold
from leaven.jobs.control_groups import enter, killed_in, make_groups, remove

TYPE_CHECKING = False  # `typing` takes as long to import as all the rest
if TYPE_CHECKING:
    import _socket

_LOOK = 1.0  # seconds between two looks at memory
_CORE = "leaven-core-"  # begins the name that a job holds for each core that it is pinned to


class Limits:
    """So many cores, and so much memory in bytes; 0 for no limit."""

    def __init__(self, attempt: str, cores: int = 0, memory: int = 0) -> None:
        usable = sorted(os.sched_getaffinity(0))
        self._memory = memory
        wanted = {"memory": memory, "cpu": cores if cores < len(usable) else 0}
        wanted = {name: limit for name, limit in wanted.items() if limit}
        self._groups = make_groups(attempt, wanted)
        self.enforced: set[str] = set().union(*self._groups.values())  # `memory` and `cpu`, by groups
        self._pinned = _claim(usable, cores) if "cpu" in set(wanted) - self.enforced else {}
        self._watches = "memory" in set(wanted) - self.enforced
        self._look_at = 0.0
        self._is_exceeded = False

    def enter(self) -> None:
        """In the new process: get the limits, with all that it will start."""
        for folder in self._groups:
            with contextlib.suppress(OSError):
                enter(folder)
        if self._pinned:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._pinned)

    def is_exceeded(self) -> bool:
        """Whether more memory is used than there may be, where no group prevents it."""
        if self._watches and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK
            self._is_exceeded |= _memory_in_use(self._memory) > self._memory
        return self._is_exceeded

    def end(self) -> str:
        """Give the limits up, when all processes have ended; which of them has ended one, in words."""
        self._is_exceeded |= any(killed_in(folder) for folder, names in self._groups.items() if "memory" in names)
        remove(self._groups)
        for claim in self._pinned.values():
            claim.close()
        return f"it used more than the {self._memory / 1e9:.3g} GB of memory that it may use" * self._is_exceeded


def _claim(usable: list[int], count: int) -> dict[int, _socket.socket]:
    """Cores that no other job has claimed on this machine, with the claims; none if too few are left."""
    found: dict[int, _socket.socket] = {}
    for core in usable:
        if len(found) < count and (claim := hold(f"{_CORE}{core}")) is not None:
            found[core] = claim
    if len(found) == count:
        return found
    for claim in found.values():
        claim.close()
    return {}


def _memory_in_use(enough: int) -> int:
    """Bytes that the descendants of this process use. What they share counts once where the sum is more than enough:
    finding that out takes longer."""
    pids = descendants(os.getpid())
    pages = sum(int(_first(f"/proc/{pid}/statm", 1)) for pid in pids)
    if pages * os.sysconf("SC_PAGE_SIZE") <= enough:
        return 0
    return 1024 * sum(_proportional(pid) for pid in pids)


def _first(file: str, field: int) -> str:
    with contextlib.suppress(OSError, IndexError), open(file, encoding="utf-8") as opened:
        return opened.readline().split()[field]
    return "0"


def _proportional(pid: int) -> int:
    """The memory of a process in KB, of which what it shares counts in part."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as opened:
        return sum(int(line.split()[1]) for line in opened if line.startswith("Pss:"))
    return 0
