"""Recipes whose programs store outputs end with the same weights as without; where they can't store, they say why."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import at_work

MODEL = "model conv(8, stride=2) -> conv(8) -> global_pool() -> dropout(0.1) -> linear(classes)\n"
DATA = "data digits() { split train=90 samples, val=40 samples, test=40 samples }\n"
FROZEN = 'freeze "0" + "1"'
EARLIER = 'before_phase("two")'
RECIPES = {
    "frozen": f"{FROZEN}\ntrain epochs=2",
    "average": f"{FROZEN}\nema 0.9\ntrain epochs=2",
    "stochastic average": f"{FROZEN}\nswa start=1 epoch\ntrain epochs=2",
    "sharpness": f"{FROZEN}\nsam\ntrain epochs=2",
    "pull towards the start": f"{FROZEN}\nl2_sp\ntrain epochs=2",
    "gradients of two batches": f"{FROZEN}\ntrain epochs=2, accumulate=2",
    "bf16": f"{FROZEN}\ntrain epochs=2, precision=bf16",
    "fp16": f"{FROZEN}\ntrain epochs=2, precision=fp16",
    "teacher": 'phase "one", epochs=1 {}\nphase "two", epochs=2 { distill before_phase("two") }',
    "teacher of a head": f'phase "one", epochs=1 {{}}\nphase "two", epochs=2 {{ {FROZEN}; distill {EARLIER} }}',
    "second phase": f'phase "one", epochs=1 {{}}\nphase "two", epochs=2 {{ {FROZEN} }}\nphase "three", epochs=1 {{}}',
}


def weights(file: Path, output: str) -> dict[str, torch.Tensor]:
    saved = torch.load(at_work.run_folder(file, output) / "last.ckpt", weights_only=True)
    return dict(saved["state"]["model"])


def scores(file: Path, output: str) -> list[str]:
    table = (at_work.run_folder(file, output) / "metrics.csv").read_text()
    return [line.rpartition(",")[0] for line in table.splitlines()]  # without the time that it took


@pytest.mark.parametrize("name", RECIPES)
def test_it_ends_with_the_same_weights(name: str, tmp_path: Path) -> None:
    stored = at_work.program(tmp_path, MODEL + DATA + RECIPES[name])
    assert re.search(r"phase\.(frozen|teacher)_once", stored.read_text())
    text = RECIPES[name]
    off = text.replace("train epochs", "train cache=off, epochs") if "train" in text else f"{text}\ntrain cache=off"
    plain = at_work.program(tmp_path, MODEL + DATA + off, "plain")
    assert "_once" not in plain.read_text()
    said = at_work.run(stored, "--output", "stored").said
    assert "run in every epoch" not in said
    at_work.run(plain, "--output", "plain")
    one, other = weights(stored, "stored"), weights(plain, "plain")
    assert scores(stored, "stored") == scores(plain, "plain")
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_so_many_views_are_used_and_each_is_computed_once(tmp_path: Path) -> None:
    data = DATA.replace("{", "{ train random_crop(8, padding=1);")
    views = at_work.program(tmp_path, f"{MODEL}{data}{FROZEN}\nfeatures views=2\ntrain epochs=4")
    text = views.read_text()
    assert "data = data.with_views(2)" in text
    assert "rest, features = phase.frozen_once(model, data)" in text
    said = at_work.run(views, "--output", "views").said
    assert "run in every epoch" not in said
    exact = at_work.program(tmp_path, f"{MODEL}{data}{FROZEN}\ntrain epochs=4", "exact")
    assert 'phase.frozen_once(model, data, only="val")' in exact.read_text()
    at_work.run(exact, "--output", "exact")
    assert scores(views, "views") != scores(exact, "exact")
    plain = at_work.program(tmp_path, f"{MODEL}{data}{FROZEN}\nfeatures views=2\ntrain cache=off, epochs=4", "plain")
    assert "_once" not in plain.read_text()
    at_work.run(plain, "--output", "plain")
    assert scores(views, "views") == scores(plain, "plain"), "the same views, stored or not"
    one, other = weights(views, "views"), weights(plain, "plain")
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_teacher_sees_the_views(tmp_path: Path) -> None:
    data = DATA.replace("{", "{ train random_crop(8, padding=1);")
    phases = f'phase "one", epochs=1 {{}}\nphase "two", epochs=3 {{ {FROZEN}; features views=2; distill {EARLIER} }}'
    stored = at_work.program(tmp_path, f"{MODEL}{data}{phases}")
    at_work.run(stored, "--output", "stored")
    plain = at_work.program(tmp_path, f"{MODEL}{data}{phases}\ntrain cache=off", "plain")
    at_work.run(plain, "--output", "plain")
    assert scores(stored, "stored") == scores(plain, "plain")


def test_a_run_with_a_teacher_is_resumed(tmp_path: Path) -> None:
    file = at_work.program(tmp_path, MODEL + DATA + RECIPES["teacher of a head"])
    at_work.run(file, "--output", "whole")
    at_work.interrupt(file, "--output", "stopped", at=at_work.Moment(step=5))  # of 3 in each epoch
    folder = at_work.run_folder(file, "stopped")
    said = at_work.run(file, "--resume", str(folder)).said
    assert "run in every epoch" not in said
    assert "runs in every epoch" not in said
    one, other = weights(file, "whole"), weights(file, "stopped")
    assert all(torch.equal(one[key], other[key]) for key in one)


RANDOM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = Body()
        self.head = nn.Linear(16, classes)

    def forward(self, images):
        return self.head(self.body(images))

class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3)

    def forward(self, images):
        {forward}
"""


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("return (self.conv(images) * torch.rand(1)).mean((2, 3))", "Net draws random numbers"),
        ("return self.conv(images).mean((2, 3)) - self.conv(images).mean((0, 2, 3))", "batch"),
        ("return self.conv(images).mean((2, 3)) if images.sum() > 0 else images[:, 0, 0]", "batch"),
    ],
    ids=["random", "other images of the batch", "branches"],
)
def test_what_can_not_be_stored_runs_in_every_epoch_with_the_reason(forward: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(RANDOM.replace("{forward}", forward))
    recipe = f'import "net.py"\nmodel net.Net()\n{DATA}freeze body\ntrain epochs=2'
    stored = at_work.program(tmp_path, recipe)
    plain = at_work.program(tmp_path, recipe.replace("epochs=2", "epochs=2, cache=off"), "plain")
    said = at_work.run(stored, "--output", "stored").said
    at_work.run(plain, "--output", "plain")
    assert reason in said
    assert "run in every epoch" in said
    assert scores(stored, "stored") == scores(plain, "plain")


IN_PLACE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.drop = nn.Dropout(0.5, inplace=True)
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.drop(self.body(images)))
"""


@pytest.mark.parametrize("passes", ["sam", "optimizer lbfgs(lr=0.1, max_iter=3)"])
def test_a_second_forward_pass_over_a_batch_has_what_the_first_one_had(passes: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(IN_PLACE)
    recipe = f'import "net.py"\nmodel net.Net()\n{DATA}freeze body\n{passes}\n'
    assert "run in every epoch" not in ends_the_same(tmp_path, recipe, "epochs=2")


# -- torchvision's datasets, several processes


def write_mnist(root: Path, count: int) -> None:
    """A tiny MNIST in the files' own format, of random pixels."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        labels = bytes(number % 10 for number in range(count))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels)
        pixels = rng.integers(0, 255, 28 * 28 * count, dtype=np.uint8).tobytes()
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + pixels)


def ends_the_same(folder: Path, recipe: str, train: str, *flags: str) -> str:
    """What a run says that stores what it can; it ends with the same weights as one that does not."""
    once = at_work.program(folder, f"{recipe}train {train}\n")
    always = at_work.program(folder, f"{recipe}train {train}, cache=off\n", "always")
    said = at_work.run(once, "--output", "once", *flags).said
    at_work.run(always, "--output", "always", *flags)
    one, other = weights(once, "once"), weights(always, "always")
    assert all(torch.equal(one[name], other[name]) for name in one)
    return said


def test_the_frozen_layers_run_once_for_images_of_torchvision(tmp_path: Path) -> None:
    write_mnist(tmp_path / "data", 40)
    recipe = (
        "model conv(8, stride=2) -> conv(8) -> global_pool() -> linear(classes)\n"
        'data mnist(root="data", download=false) { split train=75%, val=25% }\nfreeze "0" + "1"\n'
    )
    assert "ran the frozen layers once for 40 samples" in ends_the_same(tmp_path, recipe, "epochs=2, batch=8")


@pytest.mark.slow
def test_two_processes_share_the_work_and_end_with_the_same_weights(tmp_path: Path) -> None:
    recipe = (
        "model conv(8, stride=2) -> conv(12) -> global_pool() -> linear(classes)\n"
        'data digits() { split train=96 samples, val=40 samples, test=40 samples }\nfreeze "0" + "1"\n'
    )
    said = ends_the_same(tmp_path, recipe, "epochs=2, batch=16, devices=2")
    assert "ran the frozen layers once for 136 samples" in said, "of all processes together"
    assert "run in every epoch" not in said
