"""User code that changes the working directory: the run goes on and finds its files, or says what is wrong."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from PIL import Image
from tests import at_work

import leaven
from leaven.program.standalone import standalone

FORMS = ("normal", "standalone")
RECIPE = """
import "mine.py" as mine
model {model}
data {data}
train epochs=2, batch=4
override train_step, mine.step
"""
WHOLE = "conv(4) -> global_pool() -> linear(classes)"
PIXELS = "conv(4) -> conv(classes, kernel=1, norm=false, activation=none)"
DIGITS = "digits() { split train=40 samples, val=20 samples, test=20 samples }"
NET = """
from torch import nn
class Net(nn.Sequential):
    def __init__(self, classes):
        os.chdir("/")
        super().__init__(nn.Flatten(), nn.Linear(64, classes))
"""
STEP = """
import os
def step(model, batch, criterion):
    os.chdir("/")
    return criterion(model(batch[0]), batch[1])
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str, str], Path]:
    """A program, in one of its forms, with the user's file beside it."""

    def write(form: str, data: str, mine: str) -> Path:
        (tmp_path / "mine.py").write_text(mine)
        for folder in ("photos/no", "photos/yes", "scenes/images", "scenes/masks"):
            (tmp_path / folder).mkdir(parents=True)
            for number in range(8):
                image = Image.new("L" if folder.endswith("masks") else "RGB", (8, 8), number % 2)
                image.save(tmp_path / folder / f"{number}.png")
        file = at_work.program(tmp_path, RECIPE.format(model=PIXELS if data.startswith("mask") else WHOLE, data=data))
        if form == "standalone":
            with chdir(tmp_path):
                file.write_text(standalone(leaven.make_plan(Path("recipe.leaven"))))
        return file

    return write


@pytest.mark.parametrize("data", [DIGITS, 'folder("photos") { size 8 }'], ids=["digits", "folder"])
@pytest.mark.parametrize("form", FORMS)
def test_a_run_goes_on(written: Callable[[str, str, str], Path], form: str, data: str) -> None:
    file = written(form, data, STEP)
    said = at_work.run(file).said
    folder = at_work.run_folder(file)
    files = {"model.bundle", "metrics.csv", "last.ckpt"} if form == "normal" else {"model.pth", "phase-1.pt"}
    assert files <= {each.name for each in folder.iterdir()}
    if form == "normal":
        assert f"saved {folder.relative_to(file.parent)}/model.bundle" in said


@pytest.mark.slow
def test_a_run_that_was_started_by_a_relative_path_saves_its_model(
    written: Callable[[str, str, str], Path], tmp_path: Path
) -> None:
    written("normal", DIGITS, STEP + NET)
    recipe = RECIPE.format(model="mine.Net()", data=DIGITS)
    file = at_work.program(tmp_path, recipe)
    command = [sys.executable, "-m", "leaven.runs.launch", file.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (at_work.run_folder(file) / "model.bundle").is_file()


@pytest.mark.parametrize("skips", ["", " { on_bad_file skip }"])
def test_masks_are_not_found(written: Callable[[str, str, str], Path], skips: str) -> None:
    data = f'mask_folder("scenes", classes=["no", "yes"]){skips}'
    running = at_work.start(written("normal", data, STEP))
    assert running.end() != 0
    assert "user code has changed the working directory to /, so scenes/masks/" in running.said
    assert "remove `os.chdir` from it" in running.said


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_does_so_when_it_is_imported_is_named(written: Callable[[str, str, str], Path], form: str) -> None:
    running = at_work.start(written(form, 'folder("photos") { size 8 }', f"{STEP}\nos.chdir('/')\n"))
    assert running.end() != 0
    assert "mine.py changes the working directory when it is imported" in running.said
