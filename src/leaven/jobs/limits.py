"""The cores and the memory that an attempt may use on this machine: by control groups, or without them the next best.

Where no control group can be made, a program is pinned to cores that no other job is pinned to, and its processes are
looked at every second: they are killed when they use too much memory. As a part of the supervisor, this uses only the
standard library.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import time

from leaven.jobs.attempt_processes import descendants, hold, process_file
from leaven.jobs.control_groups import killed_in, make_groups, remove, write

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
                write(folder, "cgroup.procs", "0")
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
    claims: dict[int, _socket.socket] = {}
    for core in usable:
        if len(claims) < count and (claim := hold(f"{_CORE}{core}")) is not None:
            claims[core] = claim
    if len(claims) == count:
        return claims
    for claim in claims.values():
        claim.close()
    return {}


def _memory_in_use(enough: int) -> int:
    """Bytes that the descendants of this process use; 0 if not more than enough. Shared memory is counted once only
    where the plain sum is more: that takes longer to read."""
    pids = descendants(os.getpid())
    pages = sum(int(sizes[1]) for pid in pids if (sizes := process_file(pid, "statm").split()))
    if pages * os.sysconf("SC_PAGE_SIZE") <= enough:
        return 0
    lines = [line for pid in pids for line in process_file(pid, "smaps_rollup").splitlines()]
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss:"))
