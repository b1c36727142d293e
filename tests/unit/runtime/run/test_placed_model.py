"""The model as a phase trains it: nothing of the model inside is replaced, and it is seen under its own names."""

import argparse
import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.runtime.stored.test_sameness import digits
from torch import nn
from torchmetrics import Accuracy

from leaven import runtime
from leaven.runtime.run.placed_model import PlacedModel
from leaven.tasks import classification


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.scale = nn.Parameter(torch.ones(1))
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.stem(images).flatten(1) * self.scale)
        return logits


def insides(model: nn.Module) -> list[Any]:
    """What could be replaced in a model: its class, hooks, and attributes that stand before those of the class."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks")
    return [
        (
            name,
            type(module),
            id(type(module).forward),
            sorted(vars(module)),
            [list(vars(module)[each]) for each in hooks],
        )
        for name, module in model.named_modules()
    ]


@pytest.fixture
def model() -> Net:
    return Net()


@pytest.fixture
def phase(model: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> runtime.Phase:
    monkeypatch.setattr(sys, "argv", ["program.py"])
    args = runtime.parse(argparse.ArgumentParser(), output=str(tmp_path))
    run = runtime.Run(args, seed=0, monitor="val.accuracy")
    phase = run.phase("one", model, digits(), epochs=2)
    runtime.freeze(model, all_but=["head", "scale"])
    return phase


def placed_in(phase: runtime.Phase) -> tuple[PlacedModel, Any]:
    optimizer = torch.optim.AdamW(runtime.trainable(phase.model), lr=1e-3)
    return phase.setup(phase.model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer))


def test_nothing_of_the_model_is_replaced_while_it_is_trained(phase: runtime.Phase, model: Net) -> None:
    before = insides(model)
    metrics = {"accuracy": Accuracy(task="multiclass", num_classes=10)}
    placed, optimizer = placed_in(phase)
    steps = 0
    for _ in phase.epochs():
        for inputs, targets in phase.batches(phase.data.train):
            loss = nn.functional.cross_entropy(placed(inputs), targets)
            phase.backward(loss)
            assert insides(model) == before
            optimizer.step()
            optimizer.zero_grad()
            phase.log(loss)
            steps += 1
        phase.end_epoch(classification.evaluate(phase.run, placed, phase.data.val, metrics))
        assert insides(model) == before
    phase.finish()
    assert steps > 2
    assert insides(model) == before


def test_it_has_the_names_and_the_state_of_the_model(phase: runtime.Phase, model: Net) -> None:
    placed, _ = placed_in(phase)
    assert list(placed.state_dict()) == list(model.state_dict())
    assert [name for name, _ in placed.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert list(placed.modules()) == list(model.modules())
    assert placed.get_submodule("stem.1") is model.stem[1]
    assert placed.head is model.head
    assert "precision 32-true, 5 frozen layers in evaluation mode" in repr(placed)


def test_what_user_code_sets_on_it_the_model_has(phase: runtime.Phase, model: Net) -> None:
    placed, _ = placed_in(phase)
    placed.calls += 1
    placed.head = nn.Linear(4, 10)
    placed.scale = nn.Parameter(torch.zeros(1))
    del placed.stem
    assert model.calls == 1
    assert placed.head is model.head
    assert not model.scale.any()
    assert not hasattr(model, "stem")
    assert "calls" not in vars(placed)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda placed: pickle.loads(pickle.dumps(placed))])
def test_a_copy_is_a_plain_model(phase: runtime.Phase, way: Any) -> None:
    placed, _ = placed_in(phase)
    copied = way(placed)
    assert type(copied) is Net
    assert copied.stem is not placed.stem


def test_frozen_layers_are_in_evaluation_mode_whatever_user_code_calls(phase: runtime.Phase, model: Net) -> None:
    placed, _ = placed_in(phase)
    placed.eval()
    assert not model.head.training
    placed.train()
    assert [model.training, model.stem[1].training, model.head.training] == [True, False, True]
    for _ in phase.epochs():
        for number, _batch in enumerate(phase.batches(phase.data.train)):
            assert not model.stem[1].training
            model.train()
            if number == 2:
                return
