"""Trials that train together come to what each comes to by itself, up to the last digits."""

import csv
import json
import re
from pathlib import Path

import pytest
import torch
from tests.pages import carry_out

TOLERANCE = 1e-4  # of the largest weight, after all epochs
RECIPE = """
{args}
model conv(4) -> relu() -> conv(8, stride=2) -> global_pool() -> linear(16) -> relu() -> linear(classes)
data digits() {{ split train=96 samples, val=32 samples, test=32 samples }}
freeze all - last(2)
{rest}
"""
CASES = {
    "sgd": (
        "arg lr: float = 0.1",
        "optimizer sgd(lr=lr, momentum=0.9)\ntrain epochs=4, batch=32\nsweep lr, [0.01, 0.1, 0.5]",
    ),
    "adamw, label smoothing": (
        "arg smooth: float = 0.1\narg lr: float",
        "optimizer adamw(lr=lr)\nloss cross_entropy(label_smoothing=smooth)\ntrain epochs=4, batch=32\n"
        "sweep lr, [1e-3, 1e-2]\nsweep smooth, [0.0, 0.2]",
    ),
    "seeds": (
        "arg seed: int = 0",
        "optimizer adamw(lr=1e-2)\ntrain epochs=3, batch=32, seed=seed\nsweep seed, [0, 1, 2]",
    ),
    "early stopping, ema": (
        "arg lr: float = 0.1",
        "optimizer sgd(lr=lr)\nema 0.9\nearly_stop val.loss, patience=2 epochs\ntrain epochs=8, batch=32\n"
        "sweep lr, [1e-6, 0.3, 3.0]",
    ),
    "a second phase that trains more layers": (
        "arg lr: float = 0.1",
        'optimizer sgd(lr=lr)\ntrain batch=32\nphase "head", epochs=2 { }\n'
        'phase "more", epochs=2 { freeze all - last(3) }\nsweep lr, [0.02, 0.1]',
    ),
    "batches of several sizes, clip and accumulate": (
        "arg batch: int = 32",
        "optimizer adamw(lr=1e-2)\ntrain epochs=3, batch=batch, clip=0.5, accumulate=2\nsweep batch, [16, 32, 48]",
    ),
}


def succeed(command: str, folder: Path) -> str:
    code, said = carry_out(command, folder)
    assert code == 0, said
    return said


def weights(run: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(run / "best.ckpt", weights_only=True)["model"]
    return found


def rows(run: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((run / "metrics.csv").open()))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_trials_together_are_as_one_by_one(case: str, tmp_path: Path) -> None:
    args, rest = CASES[case]
    (tmp_path / "r.leaven").write_text(RECIPE.format(args=args, rest=rest))
    said = succeed("leaven run r.leaven --name sweep", tmp_path)
    sweep = tmp_path / "runs/r/sweep"
    trials = json.loads((sweep / "trials.json").read_text())["trials"]
    assert f"{len(trials)} trials train together" in said
    assert "every trial runs its own" not in said
    succeed("leaven run r.leaven --no-cache --name each", tmp_path)
    for trial in trials:
        together, alone = sweep / trial["name"], tmp_path / "runs/r/each" / trial["name"]
        assert len(rows(together)) == len(rows(alone)), "it stops as early"
        for one, other in zip(rows(together), rows(alone), strict=True):
            assert float(one["val.loss"]) == pytest.approx(float(other["val.loss"]), rel=1e-4)
            assert float(one["val.accuracy"]) == pytest.approx(float(other["val.accuracy"]), abs=1 / 32 + 1e-6)
        for name, tensor in weights(alone).items():
            scale = float(tensor.abs().max()) if tensor.numel() else 0.0
            assert float((weights(together)[name] - tensor).abs().max()) <= TOLERANCE * scale, name
    assert (sweep / "model.bundle").is_file()


def test_what_can_not_run_together_runs_by_itself(tmp_path: Path) -> None:
    rest = "optimizer sgd(lr=lr)\ntrain epochs=2, batch=32\nsweep lr, [0.01, 0.1]"
    recipe = RECIPE.format(args="arg lr: float = 0.1", rest=rest)
    (tmp_path / "r.leaven").write_text(recipe.replace("linear(16) -> relu()", "linear(16) -> dropout(0.5)"))
    said = succeed("leaven run r.leaven --name sweep", tmp_path)
    assert re.search("every trial runs its own layers, because .*random", said)
    succeed("leaven run r.leaven --lr 0.1 --name one", tmp_path)
    one, other = (weights(tmp_path / "runs/r" / name) for name in ("sweep/trial-02", "one"))
    assert all(torch.equal(one[name], other[name]) for name in one), "bit for bit, with its own random numbers"


IN_PLACE = """
from torch import nn

class Doubled(nn.Module):
    def forward(self, inputs):
        return inputs.mul_(2)

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.last = {layer}
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.last(self.body(images)))
"""


@pytest.mark.parametrize("layer", ["nn.Dropout(0.5, inplace=True)", "Doubled()"])
def test_a_layer_that_works_in_place_changes_the_batch_of_its_own_trial_alone(layer: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(IN_PLACE.replace("{layer}", layer))
    (tmp_path / "r.leaven").write_text(
        'import "own.py"\narg lr: float = 0.1\nmodel own.Net()\nfreeze body\noptimizer sgd(lr=lr)\n'
        "data digits() { split train=96 samples, val=32 samples, test=32 samples }\n"
        "train epochs=2, batch=32\nsweep lr, [0.01, 0.1, 0.2]\n"
    )
    assert "3 trials train together" in succeed("leaven run r.leaven --name sweep", tmp_path)
    succeed("leaven run r.leaven --lr 0.2 --no-cache --name one", tmp_path)
    together, alone = (weights(tmp_path / "runs/r" / name) for name in ("sweep/trial-03", "one"))
    for name, tensor in alone.items():
        assert float((together[name] - tensor).abs().max()) <= TOLERANCE * float(tensor.abs().max()), name


OUTSIDE = """
import itertools

import torch
from torch import nn
from torch.nn import functional as F

CALLS = 0
NOTES = {"calls": [], "last": None}
RANDOM = torch.Generator().manual_seed(7)
{more}

class Kept:
    losses = 0

def times(loss):
    times.calls = getattr(times, "calls", 0) + 1
    return loss * (1 + times.calls / 50)

class Loss(nn.Module):
    def forward(self, outputs, targets):
        global CALLS
        CALLS += 1
        Kept.losses += 1
        NOTES["calls"].append(CALLS)
        NOTES["last"] = NOTES["calls"]
        noise = torch.rand((), generator=RANDOM)
        scale = 1 + len(NOTES["last"]) / 10 + Kept.losses / 20 + CALLS / 30 + noise
        return times(F.cross_entropy(outputs, targets)) * scale

class Noise(nn.Module):
    def forward(self, inputs):
        return inputs * (0.5 + torch.rand(inputs.shape, generator=self.random())) if self.training else inputs

    def random(self):
        return RANDOM

class Held(Noise):
    def __init__(self):
        super().__init__()
        self.held = RANDOM

    def random(self):
        return self.held

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.drop = {drop}
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.drop(self.body(images)))
"""
WITH_OUTSIDE = """
import "own.py"
arg lr: float = 0.1
model own.Net()
freeze body
loss own.Loss()
optimizer sgd(lr=lr)
data digits() { split train=96 samples, val=32 samples, test=32 samples }
train epochs=2, batch=32
sweep lr, [0.01, 0.1, 0.2]
"""


_SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in ("Noise()", "Held()")]


@pytest.mark.parametrize("drop", ["nn.Dropout(0.5)", *_SLOW])
def test_no_trial_sees_the_variables_of_another(drop: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OUTSIDE.replace("{drop}", drop).replace("{more}", ""))
    (tmp_path / "r.leaven").write_text(WITH_OUTSIDE)
    assert "3 trials train together" in succeed("leaven run r.leaven --name sweep", tmp_path)
    succeed("leaven run r.leaven --lr 0.2 --no-cache --name one", tmp_path)
    together, alone = (weights(tmp_path / "runs/r" / name) for name in ("sweep/trial-03", "one"))
    assert all(torch.equal(together[name], tensor) for name, tensor in alone.items()), "bit for bit"


@pytest.mark.slow
def test_trials_whose_variables_can_not_be_copied_don_t_share_a_process(tmp_path: Path) -> None:
    more = "SCALES = (1 + n / 10 for n in itertools.count())"
    source = OUTSIDE.replace("{drop}", "nn.Dropout(0.5)").replace("{more}", more)
    (tmp_path / "own.py").write_text(source.replace("* scale", "* next(SCALES)"))
    (tmp_path / "r.leaven").write_text(WITH_OUTSIDE)
    said = succeed("leaven run r.leaven --name sweep", tmp_path)
    assert "each trial trains in a process of its own, because own.SCALES may change, and can't be copied" in said
    assert "trial 3/3: lr=0.2" in said
    succeed("leaven run r.leaven --lr 0.2 --no-cache --name one", tmp_path)
    sweep, alone = (weights(tmp_path / "runs/r" / name) for name in ("sweep/trial-03", "one"))
    assert all(torch.equal(sweep[name], tensor) for name, tensor in alone.items())


HOOKED = """
import torch
from torch import nn

def tenth(parameter):
    parameter.grad.mul_(0.1)

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.body(images))

class Slow(torch.optim.SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)
        for group in self.param_groups:
            for weight in group["params"]:
                weight.register_post_accumulate_grad_hook(tenth)
"""


def test_hooks_of_gradients_are_called(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(HOOKED)
    recipe = WITH_OUTSIDE.replace("loss own.Loss()\n", "").replace("sgd(lr=lr)", "own.Slow(lr=lr)")
    (tmp_path / "r.leaven").write_text(recipe)
    said = succeed("leaven run r.leaven --name sweep", tmp_path)
    assert "every trial runs its own layers, because hooks change their gradients" in said
    succeed("leaven run r.leaven --lr 0.2 --no-cache --name one", tmp_path)
    together, alone = (weights(tmp_path / "runs/r" / name) for name in ("sweep/trial-03", "one"))
    assert all(torch.equal(together[name], alone[name]) for name in alone)


SPOILED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, classes)
        self.head.weight.register_post_accumulate_grad_hook(self.spoil)
        self.register_buffer("steps", torch.tensor(0))

    def spoil(self, weight):
        self.steps += 1
        if self.steps > 6:
            self.body[0].weight.data.fill_(1e4)

    def forward(self, images):
        return self.head(self.body(images))
"""


def test_the_best_epoch_has_the_frozen_weights_of_then(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(SPOILED)
    recipe = WITH_OUTSIDE.replace("loss own.Loss()\n", "").replace("epochs=2", "epochs=3")
    (tmp_path / "r.leaven").write_text(f"{recipe}checkpoint by=val.loss\n")
    assert "3 trials train together" in succeed("leaven run r.leaven --name sweep", tmp_path)
    succeed("leaven run r.leaven --lr 0.2 --no-cache --name one", tmp_path)
    together, alone = (weights(tmp_path / "runs/r" / name) for name in ("sweep/trial-03", "one"))
    assert (alone["body.0.weight"] < 1).all()
    assert all(torch.equal(together[name], alone[name]) for name in alone)


def test_a_trial_that_diverges_leaves_the_others(tmp_path: Path) -> None:
    rest = "optimizer sgd(lr=lr)\ntrain epochs=3, batch=32, clip=none\nsweep lr, [0.1, 1e38, 0.2]"
    (tmp_path / "r.leaven").write_text(RECIPE.format(args="arg lr: float = 0.1", rest=rest))
    said = succeed("leaven run r.leaven --name sweep", tmp_path)
    assert "trial-02 (lr=1e38) diverged: the loss is" in said
    sweep = tmp_path / "runs/r/sweep"
    assert [len(rows(sweep / name)) for name in ("trial-01", "trial-03")] == [3, 3]


def test_a_sweep_that_was_stopped_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, signal\nfrom pathlib import Path\nfrom torch.nn.functional import cross_entropy\n"
        "def loss(outputs, targets):\n    if not Path('once').exists():\n        Path('once').touch()\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n    return cross_entropy(outputs, targets)\n"
    )
    rest = "optimizer sgd(lr=lr)\ntrain epochs=3, batch=32\nsweep lr, [0.1, 0.2]\nloss mine.loss"
    (tmp_path / "r.leaven").write_text(RECIPE.format(args='import "mine.py" as mine\narg lr: float = 0.1', rest=rest))
    code, said = carry_out("leaven run r.leaven --name sweep", tmp_path)
    assert code == 130, said
    assert "to resume: leaven resume runs/r/sweep" in said
    sweep = tmp_path / "runs/r/sweep"
    assert all((sweep / name / "last.ckpt").is_file() for name in ("trial-01", "trial-02"))
    assert "2 trials train together" in succeed("leaven resume runs/r/sweep", tmp_path)
    succeed("leaven run r.leaven --lr 0.2 --name one", tmp_path)
    for one, other in zip(rows(sweep / "trial-02"), rows(tmp_path / "runs/r/one"), strict=True):
        assert float(one["val.loss"]) == pytest.approx(float(other["val.loss"]), rel=1e-4)
