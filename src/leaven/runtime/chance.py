"""Where chance comes from: seeds made of what they are for, never of what happened before.

The order of the items comes from (seed, epoch), the augmentation of an item from (seed, epoch, place in that order),
dropout and mixup from (seed, epoch, step, process). So the number of workers and an interruption change nothing.
"""

import random

import numpy as np
import torch

_MASK = (1 << 64) - 1


def seed_of(*numbers: int) -> int:
    """One number made of several (splitmix64), the same on every machine."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state ^ (number & _MASK)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state & 0x7FFFFFFFFFFFFFFF


def sow(*numbers: int, everywhere: bool = False, devices: bool = True) -> None:
    """Seed torch with what the numbers come to; `everywhere` also Python's and NumPy's own generators.

    Without `devices` only the CPU's generator is sown, which is all that loading pictures draws from.
    """
    seed = seed_of(*numbers)
    # torch.manual_seed takes a hundred times longer: for a device not yet in use it notes down the whole call stack
    torch.default_generator.manual_seed(seed)
    if devices:
        _sow_devices(seed)
    if everywhere:
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)


def _sow_devices(seed: int) -> None:
    for device in (torch.cuda, torch.xpu):
        if device.is_initialized():
            device.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)


def generator(*numbers: int) -> torch.Generator:
    """A generator of its own, seeded with what the numbers come to."""
    return torch.Generator().manual_seed(seed_of(*numbers))
