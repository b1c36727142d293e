"""How much memory a step takes, and whether it was too much."""

import os
from collections.abc import Callable
from pathlib import Path

import torch

from leaven.formats import machine

_SHARE_OF_DEVICE, _SHARE_OF_MACHINE = 0.8, 0.25
_OUT_OF_MEMORY = ("allocate memory", "not enough memory", "out of memory", "bad_alloc")


def is_out_of_memory(problem: BaseException) -> bool:
    if isinstance(problem, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(problem) for words in _OUT_OF_MEMORY)


def available(device: torch.device) -> int:
    """How many bytes a process can still use on a device, as far as the system tells."""
    if device.type == "cuda":
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + reserved
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        free = machine.memory()
    return min(free, max(0, machine.memory() - _resident()))


def has_room_for_twice(step: Callable[[], object], device: torch.device) -> bool:
    """Whether something that takes twice as much memory as a step leaves enough for the rest of a run: for the
    optimizer's state on a device of its own, for other programs on the machine's."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        step()
        used = torch.cuda.max_memory_allocated(device) - before
        return before + 2 * used <= _SHARE_OF_DEVICE * torch.cuda.mem_get_info(device)[1]
    before = _resident()
    step()
    return 2 * (_highest_resident() - before) <= _SHARE_OF_MACHINE * machine.memory()


def _resident() -> int:
    """How many bytes of the process are in memory; where the system does not tell, at most were."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return _highest_resident()


def _highest_resident() -> int:
    """How many bytes of the process were in memory at most."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if os.uname().sysname == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
