"""The state of a phase's loop, without a model."""

import pytest

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
    loop = Loop(epochs=2, batches_per_epoch=3)
    assert trained(loop, 0.1, 0.3, 0.9) == [1, 2]
    assert (loop.epoch, loop.is_over, loop.is_stopped_early) == (2, True, False)


def test_patience_counts_epochs_without_a_clear_improvement() -> None:
    loop = Loop(epochs=9, batches_per_epoch=3)
    assert trained(loop, 0.5, 0.51, 0.52, 0.9, patience=2, at_least=0.1) == [1, 2, 3]
    assert (loop.epoch, loop.is_stopped_early) == (3, True)


def test_of_two_epochs_with_the_same_score_the_lower_loss_is_better() -> None:
    loop = Loop(epochs=3, batches_per_epoch=1)
    assert [loop.is_best(0.5, loss) for loss in (0.4, 0.4, 0.3)] == [True, False, True]


@pytest.mark.parametrize(("accumulate", "sizes"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (8, [5])])
def test_every_batch_is_in_one_step(accumulate: int, sizes: list[int]) -> None:
    loop = Loop(epochs=1, batches_per_epoch=5, accumulate=accumulate)
    steps = []
    for loop.batch in range(5):
        if loop.is_step:
            steps.append(loop.batches_in_step)
    assert steps == sizes
    assert loop.steps_per_epoch == len(sizes)


def test_it_goes_on_where_it_was_saved() -> None:
    loop = Loop(epochs=9, batches_per_epoch=4)
    trained(loop, 0.5, 0.7, 0.6)
    loop.batch = 2
    resumed = Loop(epochs=9, batches_per_epoch=4)
    resumed.load_state_dict(loop.state_dict())
    assert resumed == loop


def test_with_more_epochs_than_before_it_is_not_over() -> None:
    short = Loop(epochs=1, batches_per_epoch=4)
    trained(short, 0.5)
    longer = Loop(epochs=2, batches_per_epoch=4)
    longer.load_state_dict(short.state_dict())
    assert longer.is_left
    assert longer.epoch == 1
