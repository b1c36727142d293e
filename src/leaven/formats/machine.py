"""What this machine offers to a process, and calls its signals."""

import os
import signal
from pathlib import Path

_LIMIT = Path("/sys/fs/cgroup/memory.max")
_USUAL_MEMORY = 8 * 2**30  # where the system does not tell


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """The memory in bytes that processes may use: the machine's, or that of the container."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return _USUAL_MEMORY
    try:
        return min(whole, int(_LIMIT.read_text()))
    except (OSError, ValueError):  # not in a container, or without a limit ("max")
        return whole


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
