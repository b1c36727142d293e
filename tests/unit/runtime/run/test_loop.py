"""The state of a phase's loop, without a model."""

import math
from typing import Any

import pytest

from leaven.runtime.failures import Failure
from leaven.runtime.run.length import EpochSize, Length
from leaven.runtime.run.loop import Loop


def trained(loop: Loop, *scores: float, patience: int | None = None, at_least: float = 0.0) -> list[int]:
    """Go through the epochs that are left, with these scores; the epochs that were the best when they ended."""
    best = []
    for score in scores:
        if not loop.is_left:
            break
        if loop.is_best(score, loss=1.0):
            best.append(loop.epoch + 1)
        loop.count_stale(score, at_least)
        loop.end_epoch(patience)
    return best


def test_it_is_over_after_its_epochs() -> None:
    loop = Loop(Length(2), EpochSize(3))
    assert trained(loop, 0.1, 0.3, 0.9) == [1, 2]
    assert (loop.epoch, loop.is_over, loop.is_stopped_early) == (2, True, False)


def test_patience_counts_epochs_without_a_clear_improvement() -> None:
    loop = Loop(Length(9), EpochSize(3))
    assert trained(loop, 0.5, 0.51, 0.52, 0.9, patience=2, at_least=0.1) == [1, 2, 3]
    assert (loop.epoch, loop.is_stopped_early) == (3, True)


def test_of_two_epochs_with_the_same_score_the_lower_loss_is_better() -> None:
    loop = Loop(Length(3), EpochSize(1))
    assert [loop.is_best(0.5, loss) for loss in (0.4, 0.4, 0.3)] == [True, False, True]


@pytest.mark.parametrize(("accumulate", "sizes"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (8, [5])])
def test_every_batch_is_in_one_step(accumulate: int, sizes: list[int]) -> None:
    loop = Loop(Length(1), EpochSize(5, accumulate=accumulate))
    steps = []
    for loop.batch in range(5):
        if loop.is_step:
            steps.append(loop.batches_in_step)
    assert steps == sizes
    assert loop.whole.steps == len(sizes)


def test_it_goes_on_where_it_was_saved() -> None:
    loop = Loop(Length(9), EpochSize(4))
    trained(loop, 0.5, 0.7, 0.6)
    loop.batch = 2
    resumed = Loop(Length(9), EpochSize(4))
    resumed.load_state_dict(loop.state_dict())
    assert resumed == loop


def test_with_more_epochs_than_before_it_is_not_over() -> None:
    short = Loop(Length(1), EpochSize(4))
    trained(short, 0.5)
    longer = Loop(Length(2), EpochSize(4))
    longer.load_state_dict(short.state_dict())
    assert longer.is_left
    assert longer.epoch == 1


@pytest.mark.parametrize(
    ("amount", "unit", "epochs"),
    [
        (2, "epochs", [4, 4]),
        (0, "epochs", []),
        (3, "steps", [4, 2]),  # a step of two batches
        (100, "steps", [4] * 50),
        (35, "samples", [4]),
        (36, "samples", [4, 2]),  # of 35 in an epoch
        (10, "samples", [2]),
    ],
)
def test_a_length_in_any_unit_ends_after_a_whole_step(amount: int, unit: Any, epochs: list[int]) -> None:
    loop = Loop(Length(amount, unit), EpochSize(4, samples=35, samples_per_batch=10, accumulate=2))
    batches = []
    while loop.is_left:
        while not loop.is_epoch_trained:
            loop.batch += 1
        batches.append(loop.batch)
        loop.end_epoch(None)
    assert batches == epochs
    assert loop.epochs == len(epochs)
    assert loop.steps == sum(math.ceil(each / 2) for each in epochs)


def test_minutes_end_a_phase_after_the_step_in_which_they_are_over() -> None:
    loop = Loop(Length(1, "minutes"), EpochSize(4, accumulate=2))
    loop.batch, loop.seconds = 1, 61.0
    assert not loop.is_epoch_trained
    loop.batch = 2
    assert loop.is_epoch_trained
    resumed = Loop(Length(1, "minutes"), EpochSize(4, accumulate=2))
    resumed.load_state_dict(loop.state_dict())
    assert resumed.is_epoch_trained
    loop.end_epoch(None)
    assert not loop.is_left
    with pytest.raises(Failure, match="how many steps a phase of 1 minutes has"):
        _ = loop.steps
