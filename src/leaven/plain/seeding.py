"""Random numbers that follow from where a run is, never from what was drawn before."""

import random

import numpy as np
import torch


def derive_seed(*numbers: int) -> int:
    """One seed made of several numbers (with the mixing constants of splitmix64)."""
    state, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    for number in numbers:
        state = (state ^ (number & mask)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
        state ^= state >> 31
    return state & 0x7FFFFFFFFFFFFFFF


def seed_python() -> None:
    """Seed Python and NumPy as torch was: your code may draw from them."""
    random.seed(torch.initial_seed())
    np.random.seed(torch.initial_seed() & 0xFFFFFFFF)


def seed_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Seed the generator of an optimizer that has one of its own."""
    generator = getattr(optimizer, "generator", None)
    if isinstance(generator, torch.Generator):
        generator.manual_seed(torch.initial_seed())


def generator(*numbers: int) -> torch.Generator:
    """A generator of its own, seeded with what the numbers derive to."""
    return torch.Generator().manual_seed(derive_seed(*numbers))
