"""How the rates of an optimizer's parameter_groups change."""

import pytest
import torch
from torch import nn

from leaven.runtime import one_cycle, parameter_groups, plateau

RATE = 0.1


def optimizer_of(*rates: float) -> torch.optim.SGD:
    return torch.optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates], lr=RATE)


def rates(optimizer: torch.optim.Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


def test_one_cycle_keeps_the_proportions_of_groups() -> None:
    optimizer = optimizer_of(RATE, RATE / 10)
    schedule = one_cycle(optimizer, 10, peak=2.0, warmup_steps=3)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    assert rates(optimizer) == pytest.approx([2.0, 0.2])


def test_a_plateau_is_climbed_to_first() -> None:
    optimizer = optimizer_of(RATE)
    schedule = plateau(optimizer, higher_is_better=False, factor=0.5, patience=0, warmup_steps=3)
    seen = []
    for _ in range(4):
        seen += rates(optimizer)
        schedule.step(1.0)  # does not count before the climb is over
        schedule.warm_up()
    assert seen == pytest.approx([RATE / 4, RATE / 2, RATE * 3 / 4, RATE])
    schedule.step(1.0)
    assert rates(optimizer) == pytest.approx([RATE / 2])


def test_a_plateau_goes_on_where_it_was() -> None:
    first = plateau(optimizer_of(RATE), higher_is_better=True, warmup_steps=5)
    first.warm_up()
    second = plateau(optimizer_of(RATE), higher_is_better=True, warmup_steps=5)
    second.load_state_dict(first.state_dict())
    second.warm_up()
    assert rates(second.optimizer) == pytest.approx([RATE * 3 / 6])


def test_groups_take_globs_and_leave_the_rest_first() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), nn.Linear(2, 2))
    made = parameter_groups(model, (["*.bias"], {"weight_decay": 0.0}), (["1.weight"], {"lr": 1.0}))
    assert [len(group["params"]) for group in made] == [2, 3, 1]
    assert made[0].keys() == {"params"}
    assert made[1]["weight_decay"] == 0.0
    assert made[2]["params"] == [model[1].weight]
