"""A run that fails names the line of the recipe that it was carrying out."""

from pathlib import Path

import pytest
from tests import at_work

from leaven.formats.run_folder import PLAN
from leaven.language.source import Source
from leaven.planning.compiling import compile_source
from leaven.runs.starting import new_run

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


BUILD = "def build_model(num_classes: int) -> nn.Module:\n"
EDITS = {  # a line of `build_model` after an edit, what is reported, and where: at the function, or at a line of it
    "the program as it was": ("", "", 0),
    "an exception": ('    raise RuntimeError("boom")\n', "error: RuntimeError: boom", 1),
    "no return": ("    return\n", "error: build_model returned nothing, not a model", 0),
    "too few outputs": ("    num_classes = 7\n", "error: the model has 7 outputs, but the data has 10 classes", 0),
    "too many outputs": ("    num_classes = 12\n", "error: the model has 12 outputs, but the data has 10 classes", 0),
}


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """Programs in run folders, edited, and what they say."""
    files = {}
    for name, (line, *_) in EDITS.items():
        folder = tmp_path_factory.mktemp("edited")
        source = Source("recipe.leaven", f'{NET}{DATA}train epochs=1\noutput "{folder}"\n')
        compiled = compile_source(source)
        assert compiled.recipe is not None
        assert compiled.plan is not None
        files[name] = new_run(source, compiled.recipe, compiled.plan)[0] / "program.py"
        text = files[name].read_text()
        assert BUILD in text
        files[name].write_text(text.replace(BUILD, BUILD + line))
    said = at_work.run_each(list(files.values()), "--devices", "1")
    return {name: (file, said.get(file, "")) for name, file in files.items()}


@pytest.mark.parametrize("name", EDITS)
def test_in_an_edited_program_the_edit_is_named(name: str, edited: dict[str, tuple[Path, str]]) -> None:
    file, said = edited[name]
    _, report, below = EDITS[name]
    if not report:
        assert not said
        return
    at = file.read_text().splitlines().index(BUILD.strip()) + 1 + below
    assert f"{report}\n  --> program.py:{at}\n" in said
    assert " 1/1 " not in said  # no epoch was trained
