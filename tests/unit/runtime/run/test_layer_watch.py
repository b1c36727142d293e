"""What is recorded of layers while they train."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import at_work
from torch import nn

from leaven.formats.training_record import NOT_COMPUTED, WINDOW, read_rows
from leaven.runtime.run.layer_watch import LayerWatch, not_found, varying_units, watched_layers


def measured(watch: LayerWatch, model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> Any:
    """The row of a step."""
    with watch.measuring(optimizer):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
    row = watch.take_row()
    optimizer.zero_grad()
    return row


def watching(model: nn.Module, *paths: str) -> LayerWatch:
    return LayerWatch(watched_layers(model, paths), 1, runs_layers=True)


def test_norms_are_those_of_the_gradient_the_weights_and_the_update() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batch = torch.randn(8, 4)
    expected = [torch.cat([each.flatten() for each in layer.parameters()]).norm() for layer in (model[0], model[2])]
    row = measured(watching(model, "0", "2"), model, optimizer, batch)
    first, last = row["layers"]["0"], row["layers"]["2"]
    assert [first["weight"], last["weight"]] == pytest.approx([float(each.detach()) for each in expected], rel=1e-4)
    assert first["update"] == pytest.approx(0.5 * first["gradient"] / first["weight"], rel=1e-4)
    assert row["gradient"] == pytest.approx(math.hypot(first["gradient"], last["gradient"]), rel=1e-4)
    assert first["trainable"] == 15


def test_the_mean_and_the_deviation_are_those_of_all_outputs() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(3 * 16, 2))
    batch = torch.randn(5, 1, 6, 6)
    with torch.no_grad():
        outputs = model[0](batch)
    row = measured(watching(model, "0"), model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    found = row["layers"]["0"]["activation"]
    assert found["mean"] == pytest.approx(float(outputs.mean()), rel=1e-4)
    assert found["deviation"] == pytest.approx(float(outputs.std(correction=0)), rel=1e-4)
    assert found["units"] == 3


def test_a_unit_is_dead_only_if_it_was_silent_in_the_whole_window() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[0].bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    watch = watching(model, "1")
    silent, fires = torch.tensor([[1.0, -1.0], [2.0, -2.0]]), torch.tensor([[1.0, 1.0], [2.0, 2.0]])
    shares = [measured(watch, model, optimizer, each)["layers"]["1"]["activation"]["dead"] for each in [silent, fires]]
    assert shares == [0.5, 0.0]
    later = [measured(watch, model, optimizer, silent)["layers"]["1"]["activation"] for _ in range(WINDOW)]
    assert [each["dead"] for each in later] == [*[0.0] * (WINDOW - 1), 0.5]
    assert later[-1]["window"] == WINDOW


def test_nan_and_infinity_are_neither_alive_nor_dead() -> None:
    outputs = torch.tensor([[0.0, 1.0, math.nan, math.inf], [0.0, 2.0, 3.0, 4.0]])
    found = varying_units(outputs)
    assert found is not None
    assert found.tolist() == [[False, True, False, False], [False, False, True, True]]
    model = nn.Sequential(nn.Linear(2, 2))
    row = measured(watching(model, "0"), model, torch.optim.SGD(model.parameters(), lr=0), torch.full((3, 2), math.nan))
    activation = row["layers"]["0"]["activation"]
    assert (activation["nan"], activation["inf"], activation["dead"]) == (6, 0, 0.0)
    assert math.isnan(activation["mean"])


def test_units_of_images_with_channels_last_are_their_last_dimension() -> None:
    outputs = torch.randn(2, 4, 4, 3)
    outputs[..., 1] = 7.0
    found = varying_units(outputs)
    assert found is not None
    assert found[0].tolist() == [True, False, True]


def test_a_layer_that_does_not_run_is_not_computed_and_a_frozen_one_has_no_gradient() -> None:
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "unused": nn.Linear(2, 2)})
    model["used"].requires_grad_(True)
    model["unused"].requires_grad_(False)
    optimizer = torch.optim.SGD(model["used"].parameters(), lr=0.1)
    watch = watching(model, "used", "unused")
    with watch.measuring(optimizer):
        model["used"](torch.randn(3, 2)).sum().backward()
        optimizer.step()
    row = watch.take_row()
    assert row is not None
    assert row["layers"]["unused"] == {"trainable": 0, "activation": NOT_COMPUTED}
    assert not model["used"]._forward_hooks
    assert watch.take_row() is None


def test_a_layer_that_is_not_there_is_left_out() -> None:
    """A program may be edited: to measure is no reason to stop it."""
    found = watched_layers(nn.Sequential(nn.Linear(1, 1)), ["fc", "0"])
    assert list(found) == ["0"]
    assert not_found(["fc", "0", "*"], found) == ["fc"]


# -- runs

DATA = "data digits() { split train=64 samples, val=32 samples, test=32 samples }\n"
CHAIN = "model conv(8) -> relu() -> conv(8, stride=2) -> global_pool() -> linear(classes)\n"
RECIPES = {
    "accumulated": f"{CHAIN}{DATA}train epochs=2, batch=8, accumulate=2, clip=0.5\n",
    "stored": f'{CHAIN}{DATA}freeze "0" + "2"\ntrain epochs=2, batch=8\n',
    "adapters": f"{CHAIN}{DATA}lora rank=2\ntrain epochs=2, batch=8\n",
    "bf16": f"{CHAIN}{DATA}ema 0.9\ntrain epochs=2, batch=8, precision=bf16\n",
}


@pytest.mark.parametrize("name", RECIPES)
def test_measuring_changes_no_bit(name: str, tmp_path: Path) -> None:
    found = []
    for watched in ("watch all, every=3 steps", "watch every=none"):
        (folder := tmp_path / watched[-4:]).mkdir()
        file = at_work.program(folder, f"{RECIPES[name]}{watched}\n")
        at_work.run(file, "--output", "out")
        folder = at_work.run_folder(file, "out")
        rows, _ = read_rows(folder)
        found.append((torch.load(folder / "last.ckpt", weights_only=True)["state"]["model"], rows))
    (measured_weights, rows), (weights, plain) = found
    assert all(torch.equal(measured_weights[key], weights[key]) for key in weights)
    layers = [row for row in rows if row["kind"] == "layers"]
    steps = [row for row in rows if row["kind"] == "step"]
    assert [row["step"] for row in layers] == [row["step"] for row in steps if row["step"] % 3 == 0]
    assert [row for row in rows if row["kind"] != "layers"] == plain
    if name == "stored":
        assert {row["layers"]["0.conv"]["activation"] for row in layers} == {NOT_COMPUTED}
        assert all(isinstance(row["layers"]["4"]["activation"], dict) for row in layers)


def test_the_steps_of_a_run_that_diverges_are_recorded_up_to_the_last(tmp_path: Path) -> None:
    file = at_work.program(
        tmp_path, f"{CHAIN}{DATA}optimizer sgd(lr=1e30)\ntrain epochs=2, batch=8\nwatch every=1 steps\n"
    )
    with pytest.raises(AssertionError):
        at_work.run(file, "--output", "out")
    lines = (at_work.run_folder(file, "out") / "training.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert last["kind"] == "step"
    assert last["loss"] in ("nan", "inf")
