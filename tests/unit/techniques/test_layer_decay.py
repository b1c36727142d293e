"""Rates by stage: what each weight's is, and that nothing is lost on the way."""

import pytest
import torch
from tests.unit.techniques.at_hand import net

from leaven.runtime import cosine, parameter_groups, trainable
from leaven.techniques import LayerDecay

STAGES = [["0", "1"], ["3"], ["6"]]


def rates(optimizer: torch.optim.Optimizer, module: torch.nn.Module) -> dict[str, float]:
    names = {weight: name for name, weight in module.named_parameters()}
    return {names[weight]: group["lr"] for group in optimizer.param_groups for weight in group["params"]}


def test_each_stage_gets_its_rate_and_the_head_comes_first() -> None:
    module = net()
    optimizer = torch.optim.AdamW(trainable(module), lr=0.1, weight_decay=0.3)
    LayerDecay(module, STAGES, factor=0.5).on_optimizer(optimizer)
    found = rates(optimizer, module)
    assert len(found) == len(list(module.parameters()))
    of_stage = {name.partition(".")[0]: rate for name, rate in found.items()}
    assert of_stage == {"0": 0.025, "1": 0.025, "3": 0.05, "6": 0.1}
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.3}


def test_groups_of_the_recipe_are_divided_further() -> None:
    module = net()
    optimizer = torch.optim.SGD(parameter_groups(module, (["6"], {"lr": 1.0}), (["1"], {"weight_decay": 0.0})), lr=0.1)
    LayerDecay(module, STAGES, factor=0.5).on_optimizer(optimizer)
    found = rates(optimizer, module)
    assert found["6.weight"] == 1.0
    assert found["1.weight"] == found["0.weight"] == 0.025


def test_a_schedule_keeps_the_proportions() -> None:
    module = net()
    optimizer = torch.optim.SGD(trainable(module), lr=0.1)
    LayerDecay(module, STAGES, factor=0.5).on_optimizer(optimizer)
    schedule = cosine(optimizer, 10)
    optimizer.step()
    schedule.step()
    first, *_, last = (group["lr"] for group in optimizer.param_groups)
    assert first / last == pytest.approx(4)
