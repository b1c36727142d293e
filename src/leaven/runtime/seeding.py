"""Seeds derived from what they are for, never from what was drawn before.

The sample order comes from (seed, epoch), the augmentation of a sample from (seed, epoch, position in that order),
dropout and mixup from (seed, epoch, step, process). So neither the number of workers nor an interruption changes what
a run draws.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def derive_seed(*numbers: int) -> int:
    """One seed made of several numbers (splitmix64), the same on every machine."""
    state, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    for number in numbers:
        state = (state ^ (number & mask)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
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
    for device in (torch.cuda, torch.xpu) if devices else ():
        if device.is_initialized():
            device.manual_seed_all(seed)
    if devices and torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
    if not torch_only:
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)


def generator(*numbers: int) -> torch.Generator:
    """A separate generator, seeded with what the numbers derive to."""
    return torch.Generator().manual_seed(derive_seed(*numbers))


def draws() -> Callable[[], bool]:
    """A function that tells whether random numbers were drawn since then, from any generator."""
    before = generators()
    return lambda: not are_same_generators(before, generators())


@contextmanager
def generators_kept() -> Iterator[None]:
    """What is drawn afterwards is what would have been drawn without this."""
    states = generators()
    try:
        yield
    finally:
        set_generators(states)


Generators = tuple[Any, ...]


def generators() -> Generators:
    """The states of the global generators."""
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), random.getstate(), np.random.get_state(), on_gpus


def set_generators(states: Generators) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])
    torch.cuda.set_rng_state_all(states[3])


def are_same_generators(some: Generators, others: Generators) -> bool:
    """Whether generators are in the same states."""
    numpy_alike = all(map(np.array_equal, some[2], others[2]))
    on_gpus_alike = len(some[3]) == len(others[3]) and all(map(torch.equal, some[3], others[3]))
    return torch.equal(some[0], others[0]) and some[1] == others[1] and numpy_alike and on_gpus_alike
