"""Chance depends on what it is for, and on nothing that happened before."""

import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from leaven.runtime.seeding import derive_seed, generator, seed_all

NUMBERS = st.lists(st.integers(0, 2**40), min_size=1, max_size=4)


def test_seeds_are_the_same_on_every_machine() -> None:
    assert (derive_seed(0), derive_seed(0, 1), derive_seed(7, 3, 1000)) == (
        6367277893379345895,
        7430010552196289380,
        6505807712208225144,
    )


@given(NUMBERS, NUMBERS)
def test_other_numbers_make_another_seed(one: list[int], other: list[int]) -> None:
    assert (derive_seed(*one) == derive_seed(*other)) == (one == other)


def test_neighbouring_places_share_nothing() -> None:
    draws = [torch.rand(1, generator=generator(0, 3, place)).item() for place in range(2000)]
    assert len(set(draws)) > 1990
    assert abs(np.mean(draws) - 0.5) < 0.03
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.08


def test_sowing_brings_the_same_draws_again() -> None:
    def draw() -> tuple[float, float, float]:
        return torch.rand(1).item(), random.random(), float(np.random.rand())

    seed_all(0, 5)
    first = draw()
    draw()
    seed_all(0, 5)
    assert draw() == first
    seed_all(0, 6)
    assert set(draw()).isdisjoint(first)


def test_sowing_torch_leaves_the_others_alone() -> None:
    random.seed(1)
    expected = random.Random(1).random()
    seed_all(0, 5, torch_only=True)
    assert random.random() == expected
