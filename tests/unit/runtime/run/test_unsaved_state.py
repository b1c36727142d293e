"""A run that can't be resumed exactly, because user code keeps state that is in no checkpoint, says so."""

import json
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


DATA = """
import functools
import numpy as np
from torch.utils.data import Dataset, IterableDataset, Subset
from torchvision.transforms import v2


class Flat(nn.Sequential):
    def __init__(self, classes):
        super().__init__(nn.Flatten(), nn.Linear(64, classes))


class Images(Dataset):
    classes = ["dark", "bright"]

    def __init__(self, size=40):
        self.targets = [at % 2 for at in range(size)]
        self.pixels = torch.rand(size, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        self.file = None

    @functools.cached_property
    def names(self):
        return [str(at) for at in range(40)]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(__file__)
        return self.pixels[index] + self.targets[index], int(self.names[index]) % 2


class Fading(Images):
    calls = 0

    def __getitem__(self, index):
        self.calls += 1
        return self.pixels[index] * 0.99**self.calls + self.targets[index], self.targets[index]


class Drawing(Images):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index):
        return self.pixels[index] * self.rng.random(dtype="float32"), self.targets[index]


def part():
    return Subset(Fading(), range(36))


class Stream(IterableDataset):
    classes = ["dark", "bright"]
    epoch = 0

    def __init__(self):
        self.images = Images()

    def __iter__(self):
        for index in range(len(self.images)):
            yield self.images.pixels[index] * 0.5**self.epoch, self.images.targets[index]


class Told(Stream):
    def set_epoch(self, epoch):
        self.epoch = epoch


class Counting(Stream):
    def __iter__(self):
        self.epoch += 1
        return super().__iter__()


class Fade:
    def __init__(self):
        self.calls = 1

    def __call__(self, image):
        self.calls += 1
        return image * 0.99**self.calls


class Still(Fade):
    def __call__(self, image):
        return image * 0.9


class Sometimes:
    def __init__(self):
        self.inside = v2.Compose([v2.RandomApply([Fade()], p=0.9)])

    def __call__(self, image):
        return self.inside(image)


class Closed(Still):
    def __init__(self):
        calls = 0

        def fade(image):
            nonlocal calls
            calls += 1
            return image * 0.99**calls

        self.inside = v2.Lambda(fade)

    def __call__(self, image):
        return self.inside(image)


class Buffered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, image):
        self.calls += 1
        return image * 0.99**self.calls


calls = 0


def outside(image):
    global calls
    calls += 1
    return image * 0.99**calls
"""
OF_DATA = """
import "mine.py" as mine
model mine.Flat()
data  mine.{data} {{ split train=80%, val=10%, test=10%; workers {workers}{more} }}
train epochs=2, batch=16
"""


@pytest.mark.parametrize(
    ("data", "more", "workers", "told"),
    [
        ("Fading()", "", 0, "Fading.calls of the data"),
        ("Fading()", "", 2, "Fading.calls of the data"),
        ("Images()", "; train mine.Fade()", 2, "Fade.calls of the data"),
        ("Images()", "; train mine.Still()", 2, ""),
        ("Counting()", "", 0, "Counting.epoch of the data"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("Images()", "; train mine.Still()", 0, ""),
                ("Images()", "; train mine.Fade()", 0, "Fade.calls of the data"),
                ("Images()", "; train mine.Sometimes()", 2, "Fade.calls of the data"),
                ("Images()", "; train mine.Closed()", 0, "Closed.__init__.<locals>.fade.calls of the data"),
                ("Images()", "; train mine.outside", 2, "mine.calls"),
                ("Images()", "; train mine.Buffered()", 2, "Buffered.calls of the data"),
                ("Drawing()", "", 0, "Drawing.rng of the data"),
                ("part()", "", 2, "Fading.calls of the data"),
                ("Told()", "", 0, ""),
                ("Told()", "", 1, ""),
                ("Counting()", "", 1, ""),
            ]
        ),
    ],
)
def test_the_state_of_data_is_named(data: str, more: str, workers: int, told: str, tmp_path: Path) -> None:
    said = resumed(tmp_path, OF_DATA.format(data=data, workers=workers, more=more), DATA)
    lost = json.loads((at_work.run_folder(tmp_path / "recipe.py") / "lock.json").read_text()).get("lost_state", [])
    assert lost == [line for line in said.splitlines() if "changed in training" in line]
    assert [line.partition(" changed in training")[0] for line in lost] == [told] * bool(told)


TECHNIQUES = """

class Louder:
    def __init__(self, model):
        self.model, self.calls = model, 0

    def on_loss(self, loss, images, outputs, targets):
        self.calls += 1
        return loss * 0.9**self.calls


class Saved(Louder):
    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]
"""
WITH_TECHNIQUE = """
import "mine.py" as mine
model flatten() -> linear(16) -> linear(classes)
data  digits() {{ split train=16 samples, val=10 samples, test=10 samples }}
train epochs=2, batch=8
mine.{technique}()
"""


@pytest.mark.parametrize(("technique", "told"), [("Louder", "Louder.calls of the techniques"), ("Saved", "")])
def test_the_state_of_a_technique_is_saved_or_named(technique: str, told: str, tmp_path: Path) -> None:
    said = resumed(tmp_path, WITH_TECHNIQUE.format(technique=technique), TECHNIQUES)
    lost = [line.partition(" changed in training")[0] for line in said.splitlines() if "changed in training" in line]
    assert lost == [told] * bool(told)


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


def resumed(folder: Path, recipe: str, code: str = LOSSES) -> str:
    """What a run says that was killed and is resumed; its weights are those of a whole run, unless it says more."""
    (folder / "mine.py").write_text(f"import types\n{CODE}{code}")
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
