"""A run that can't be resumed exactly, because user code keeps state that is in no checkpoint, says so."""

from pathlib import Path

import pytest
import torch
from tests import at_work

CODE = """
import torch
from torch import nn


class Net(nn.Module):
    calls = 0

    def __init__(self, classes):
        super().__init__()
        self.head, self.means, self.name = nn.Linear(64, classes), [], "net"

    def forward(self, images):
        self.calls += 1
        self.means = [*self.means, images.mean()][-2:]
        return self.head(images.flatten(1)) * (1 + self.calls)


class Saved(Net):
    def get_extra_state(self):
        return torch.tensor(self.calls)

    def set_extra_state(self, state):
        self.calls = int(state)
"""
TEACHERS = """

class Teacher(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(64, classes)
        self.register_buffer("shift", torch.zeros(()))

    def forward(self, images):
        self.shift += 1
        return self.head(images.flatten(1)) * self.shift


class Counting(Teacher):
    calls = 0

    def forward(self, images):
        self.calls += 1
        return self.head(images.flatten(1)) * self.calls
"""
TAUGHT = """
import "mine.py" as mine
model   mine.Net()
data    digits() {{ split train=16 samples, val=10 samples, test=10 samples }}
distill mine.{teacher}(weights="teacher.pt")
train   epochs=2, batch=8
"""
RECIPE = """
import "mine.py" as mine
model mine.{net}()
data  digits() {{ split train=16 samples, val=10 samples, test=10 samples }}
train epochs=2, batch=8
"""


@pytest.mark.parametrize(("net", "is_lost"), [("Net", True), ("Saved", False)])
def test_state_that_is_in_no_checkpoint_is_named(net: str, is_lost: bool, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    file = at_work.program(tmp_path, RECIPE.format(net=net))
    at_work.kill(file, "--devices", "1", at=at_work.Moment(step=3))
    said = at_work.run(file, "--resume", str(at_work.run_folder(file)), "--train-only").said
    assert (
        "means, calls of the model changed in training, but plain Python state is not saved in checkpoints" in said
    ) is is_lost


@pytest.mark.parametrize(("teacher", "is_lost"), [("Counting", True), ("Teacher", False)])
def test_a_teacher_that_changes_goes_on_from_there_or_is_named(teacher: str, is_lost: bool, tmp_path: Path) -> None:
    plain = CODE.partition("class Net")[0] + "class Net(nn.Sequential):\n    def __init__(self, classes):\n"
    plain += "        super().__init__(nn.Flatten(), nn.Linear(64, classes))\n"
    (tmp_path / "mine.py").write_text(plain + TEACHERS)
    head = {"head.weight": torch.rand(10, 64), "head.bias": torch.zeros(10), "shift": torch.zeros(())}
    torch.save(head, tmp_path / "teacher.pt")
    file = at_work.program(tmp_path, TAUGHT.format(teacher=teacher))
    at_work.run(file, "--output", "whole", "--devices", "1", "--train-only")
    at_work.kill(file, "--devices", "1", at=at_work.Moment(step=3))
    killed = at_work.run_folder(file)
    said = at_work.run(file, "--resume", str(killed), "--train-only").said
    assert ("calls of the teacher changed in training, but plain Python state is not saved" in said) is is_lost
    whole, resumed = (
        torch.load(folder / "last.ckpt", weights_only=True)["state"]["model"]
        for folder in (at_work.run_folder(file, "whole"), killed)
    )
    assert all(torch.equal(whole[name], resumed[name]) for name in whole) is not is_lost


FADING = """

class Fade:
    def __init__(self):
        self.calls = 1

    def __call__(self, image):
        {count}
        return image.point(lambda value: value * 0.9**self.calls)
"""
OF_DATA = """
import "mine.py" as mine
model mine.Saved()
data  digits() { split train=16 samples, val=10 samples, test=10 samples; train mine.Fade(); workers 0 }
train epochs=2, batch=8
"""


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_transform_that_counts_is_named(is_lost: bool, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE + FADING.format(count="self.calls += 1" if is_lost else "pass"))
    file = at_work.program(tmp_path, OF_DATA)
    at_work.kill(file, "--devices", "1", at=at_work.Moment(step=3))
    said = at_work.run(file, "--resume", str(at_work.run_folder(file)), "--train-only").said
    assert ("Fade.calls of the transforms changed in training, but plain Python state is not saved" in said) is is_lost


LOSSES = """

STATE = types.SimpleNamespace(calls=0)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, outputs, targets):
        self.calls += 1
        return nn.functional.cross_entropy(outputs, targets) * self.calls


class Averaging(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(()))

    def forward(self, outputs, targets):
        loss = nn.functional.cross_entropy(outputs, targets)
        self.mean.mul_(0.9).add_(0.1 * loss.detach())
        return loss / self.mean


class Plain:
    def __init__(self):
        self.calls = 0

    def __call__(self, outputs, targets):
        self.calls += 1
        return nn.functional.cross_entropy(outputs, targets) * self.calls


def outside(outputs, targets):
    STATE.calls += 1
    return nn.functional.cross_entropy(outputs, targets) * STATE.calls


class Running(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head, self.largest, self.mask = nn.Linear(64, classes), torch.zeros(()), None
        self.register_buffer("mean", torch.zeros(()), persistent=False)

    def forward(self, images):
        if self.training:
            self.mean.add_(images.mean())
            self.largest = torch.maximum(self.largest, images.max())
        if self.mask is None:
            self.mask = torch.ones_like(images)
        return self.head((images - self.mean).flatten(1))
"""
WITH_LOSS = """
import "mine.py" as mine
model flatten() -> linear(16) -> linear(classes)
data  digits() {{ split train=16 samples, val=10 samples, test=10 samples }}
loss  mine.{loss}
train epochs=2, batch=8
"""


def resumed(folder: Path, recipe: str) -> str:
    """What a run says that was killed and is resumed; its weights are those of a whole run, unless it says more."""
    (folder / "mine.py").write_text(f"import types\n{CODE}{LOSSES}")
    file = at_work.program(folder, recipe)
    at_work.run(file, "--output", "whole", "--devices", "1", "--train-only")
    at_work.kill(file, "--devices", "1", at=at_work.Moment(step=3))
    killed = at_work.run_folder(file)
    said = at_work.run(file, "--resume", str(killed), "--train-only").said
    whole, other = (
        torch.load(run / "last.ckpt", weights_only=True)["state"]["model"]
        for run in (at_work.run_folder(file, "whole"), killed)
    )
    assert all(torch.equal(whole[name], other[name]) for name in whole) or "is not saved in checkpoints" in said
    return said


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("Averaging()", ""),
        ("Counting()", "calls of the loss"),
        pytest.param("Plain()", "calls of the loss", marks=pytest.mark.slow),
        pytest.param("outside", "mine.STATE", marks=pytest.mark.slow),
    ],
)
def test_the_state_of_a_loss_is_saved_or_named(loss: str, told: str, tmp_path: Path) -> None:
    said = resumed(tmp_path, WITH_LOSS.format(loss=loss))
    assert f"{told} changed in training" in said if told else "changed in training" not in said


def test_tensors_that_a_model_keeps_to_itself_are_named(tmp_path: Path) -> None:
    said = resumed(tmp_path, RECIPE.format(net="Running"))
    assert "largest, mean of the model changed in training" in said, "a mask is built again"


LATE = """

class Late(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(64, classes)

    def forward(self, images):
        if not hasattr(self, "mean"):
            self.register_buffer("mean", images.mean())
        return self.head((images - self.mean).flatten(1))
"""


def test_a_model_that_makes_its_weights_too_late_is_refused_before_it_is_trained(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE + LATE)
    running = at_work.start(at_work.program(tmp_path, RECIPE.format(net="Late")))
    assert running.end() == 1
    assert "Late makes `mean` in its first forward pass, so what was saved could not be loaded" in running.said
    assert "recipe.leaven:3" in running.said
    assert "epoch" not in running.said
