"""Random numbers that follow from where a run is, never from what was drawn before."""

import random

import numpy as np
import torch


def seed_python() -> None:
    """Seed Python and NumPy as torch was: your code may draw from them."""
    random.seed(torch.initial_seed())
    np.random.seed(torch.initial_seed() & 0xFFFFFFFF)


def seed_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Seed the generator of an optimizer that has one of its own."""
    generator = getattr(optimizer, "generator", None)
    if isinstance(generator, torch.Generator):
        generator.manual_seed(torch.initial_seed())
