"""Seeds derived from what they are for, never from what was drawn before.

The sample order comes from (seed, epoch), the augmentation of a sample from (seed, epoch, position in that order),
dropout and mixup from (seed, epoch, step, process). So neither the number of workers nor an interruption changes what
a run draws.
"""

import random

import numpy as np
import torch

_MASK = (1 << 64) - 1


def derive_seed(*numbers: int) -> int:
    """One seed made of several numbers (splitmix64), the same on every machine."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state ^ (number & _MASK)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state & 0x7FFFFFFFFFFFFFFF


def seed_all(*numbers: int, torch_only: bool = False, devices: bool = True) -> None:
    """Seed torch, Python and NumPy with what the numbers derive to.

    `torch_only` leaves out Python and NumPy; without `devices` only torch's CPU generator is seeded, which is all that
    loading images draws from.
    """
    seed = derive_seed(*numbers)
    # torch.manual_seed takes a hundred times longer: for a device not yet in use it records the whole call stack
    torch.default_generator.manual_seed(seed)
    if devices:
        _seed_devices(seed)
    if not torch_only:
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)


def _seed_devices(seed: int) -> None:
    for device in (torch.cuda, torch.xpu):
        if device.is_initialized():
            device.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)


def generator(*numbers: int) -> torch.Generator:
    """A separate generator, seeded with what the numbers derive to."""
    return torch.Generator().manual_seed(derive_seed(*numbers))
