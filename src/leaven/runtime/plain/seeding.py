"""Random numbers that follow from where a run is, never from what was drawn before."""

import random

import numpy as np
import torch


def derive_seed(*numbers: int) -> int:
    """One seed made of several numbers (splitmix64)."""
    state, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    for number in numbers:
        state = (state ^ (number & mask)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
        state ^= state >> 31
    return state & 0x7FFFFFFFFFFFFFFF


def seed_all(*numbers: int) -> None:
    """Seed torch, and Python and NumPy, from which user code may draw."""
    torch.manual_seed(derive_seed(*numbers))
    random.seed(torch.initial_seed())
    np.random.seed(torch.initial_seed() & 0xFFFFFFFF)


def generator(*numbers: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(*numbers))
