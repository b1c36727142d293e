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
