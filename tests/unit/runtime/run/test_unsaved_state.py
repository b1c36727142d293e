"""A run that can't be resumed exactly, because user code keeps state that is in no checkpoint, says so."""

from pathlib import Path

import pytest
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
