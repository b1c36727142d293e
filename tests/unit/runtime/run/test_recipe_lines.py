"""A run that fails names the line of the recipe that it was carrying out."""

from pathlib import Path

import pytest
from tests import at_work

from leaven.formats.run_folder import PLAN

OWN = """
import torch
from torch import nn


def upside_down(image):
    raise KeyError("which way is up")


class Picky(torch.optim.SGD):
    def __init__(self, parameters, lr=0.1):
        raise RuntimeError("not with me")


class Grumpy:
    def on_loss(self, loss, images, outputs, labels):
        raise RuntimeError("no")


class Net(nn.Sequential):
    def __init__(self, classes):
        super().__init__(nn.Flatten(), nn.Linear(64, classes))

    def forward(self, images):
        raise RuntimeError("tired") if self.training else super().forward(images)
"""
NET = "model conv(4) -> global_pool() -> linear(classes)\n"
DATA = "data digits() { split train=20 samples, val=20 samples, test=20 samples }\n"
FAILURES = {  # a recipe, and its line that fails
    "a transform": (NET + "data digits() {\n  train mine.upside_down() -> to_tensor()\n}\n", 4),
    "an optimizer": (NET + DATA + "train epochs=1\noptimizer mine.Picky(lr=1)\n", 5),
    "an argument of torch's": (NET + DATA + "optimizer sgd(nesterov=true)\n", 4),
    "weights": ('model resnet18(weights="broken.safetensors")\n' + DATA, 2),
    "the data": (NET + 'data folder("photos") { split train=60%, val=40% }\n', 3),
    "a technique": (NET + DATA + "mine.Grumpy()\n", 4),
    "a model of one's own": ("model mine.Net()\n" + DATA + "train epochs=1\n", 2),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each of the programs says."""
    files = {}
    for name, (recipe, _) in FAILURES.items():
        folder = tmp_path_factory.mktemp("failing")
        (folder / "mine.py").write_text(OWN)
        (folder / "broken.safetensors").write_bytes(b"not weights")
        for kind in ("ant", "bee"):
            (folder / "photos" / kind).mkdir(parents=True)
            for number in range(5):
                (folder / "photos" / kind / f"{number}.jpg").write_bytes(b"not a photo")
        files[name] = at_work.program(folder, 'import "mine.py" as mine\n' + recipe)
    said = at_work.run_each(list(files.values()))
    return {name: said[file] for name, file in files.items()}


@pytest.mark.parametrize("name", FAILURES)
def test_the_line_is_named(name: str, failed: dict[str, str]) -> None:
    assert f"\n  --> recipe.leaven:{FAILURES[name][1]}\n" in failed[name]


def test_a_program_without_its_plan_names_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    file = at_work.program(tmp_path, 'import "mine.py" as mine\n' + NET + DATA + "optimizer mine.Picky(lr=1)\n")
    (tmp_path / PLAN).unlink()
    running = at_work.start(file)
    assert running.end() == 1
    at = next(at for at, line in enumerate(file.read_text().splitlines(), 1) if "mine.Picky" in line)
    assert f"\n  --> recipe.py:{at}\n" in running.said


def test_a_plan_that_somebody_broke_is_no_second_failure(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    file = at_work.program(tmp_path, 'import "mine.py" as mine\n' + NET + DATA + "optimizer mine.Picky(lr=1)\n")
    (tmp_path / PLAN).write_text('{"phases": 3}')
    running = at_work.start(file)
    assert running.end() == 1
    assert "error: RuntimeError: not with me\nhelp:" in running.said
