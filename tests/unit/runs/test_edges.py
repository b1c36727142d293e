"""A sweep says so when its best value is the smallest or the largest that was tried."""

import pytest

from leaven.formats.sweep_folder import Result, Trial
from leaven.runs.sweeping import edges


def results(*tried: tuple[dict[str, object], float]) -> list[Result]:
    return [
        Result(Trial(f"trial-{at}", "", values, []), at, score, 1, 1.0, (score, 0.0))
        for at, (values, score) in enumerate(tried, 1)
    ]


@pytest.mark.parametrize(
    ("values", "scores", "told"),
    [
        (
            [1e-4, 1e-3, 1e-2],
            [0.5, 0.6, 0.7],
            "lr=0.01 is the best and the largest value of the sweep: try larger ones, too, such as 0.1",
        ),
        (
            [0.3, 0.1, 0.03],
            [0.5, 0.6, 0.7],
            "lr=0.03 is the best and the smallest value of the sweep: try smaller ones, too, such as 0.009",
        ),
        (
            [8, 16, 32],
            [0.5, 0.6, 0.7],
            "lr=32 is the best and the largest value of the sweep: try larger ones, too, such as 64",
        ),
        (
            [-1.0, 0.5, 2.0],
            [0.9, 0.6, 0.7],
            "lr=-1.0 is the best and the smallest value of the sweep: try smaller ones, too",
        ),
        ([1e-4, 1e-3, 1e-2], [0.5, 0.7, 0.6], ""),
        ([1e-4, 1e-3, 1e-2], [0.5, 0.7, 0.7], ""),
        ([1e-4, 1e-3], [0.5, 0.7], ""),
        ([0, 0.1, 0.2], [0.9, 0.7, 0.7], ""),
        (["a", "b", "c"], [0.9, 0.7, 0.7], ""),
        ([True, False], [0.9, 0.7], ""),
    ],
)
def test_the_best_of_one_sweep(values: list[object], scores: list[float], told: str) -> None:
    found = results(*(({"lr": value}, score) for value, score in zip(values, scores, strict=True)))
    assert edges(found) == ([told] if told else [])


def test_the_best_of_two_sweeps() -> None:
    pairs = [(lr, width) for lr in (0.1, 0.2, 0.4) for width in (8, 16, 32)]
    found = results(*(({"lr": lr, "width": width}, lr - abs(width - 16)) for lr, width in pairs))
    assert [line.partition(" is ")[0] for line in edges(found)] == ["lr=0.4"]
