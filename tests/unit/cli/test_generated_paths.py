"""The paths in a generated program: it can be moved together with its recipe, and names nobody's home folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from leaven.cli.main import leaven

RECIPE = """import "mine.py" as mine
model conv(4) -> global_pool() -> linear(classes)
data  folder("photos") { size 16 }
loss  mine.margin
train epochs=1
"""
LOSS = """from torch.nn.functional import cross_entropy


def margin(outputs, targets):
    return cross_entropy(outputs, targets)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a recipe in one folder; programs go to another."""
    folder = tmp_path / "project"
    (folder / "recipes").mkdir(parents=True)
    (folder / "programs").mkdir()
    for name, shade in (("dark", 40), ("light", 200)):
        (folder / "recipes" / "photos" / name).mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (16, 16), (shade + number,) * 3).save(
                folder / "recipes" / "photos" / name / f"{number}.png"
            )
    (folder / "recipes" / "dogs.leaven").write_text(RECIPE)
    (folder / "recipes" / "mine.py").write_text(LOSS)
    monkeypatch.chdir(folder)
    return folder


def generate(*words: str) -> str:
    result = CliRunner().invoke(leaven, ["generate", *words])
    assert result.exit_code == 0, result.output
    return result.output


def paths_in(program: Path) -> list[str]:
    return re.findall(r'"([^"\n]*(?:photos|mine\.py))"', program.read_text())


def test_a_recipe_is_read_once_so_it_can_come_through_a_pipe(project: Path) -> None:
    end, beginning = os.pipe()
    os.write(beginning, b"model conv(4) -> global_pool() -> linear(classes)\ndata digits()\n")
    os.close(beginning)
    assert "Conv" in generate(f"/dev/fd/{end}")  # as the shell names `<(cat recipe)`
    os.close(end)


@pytest.mark.parametrize("form", [(), ("--standalone",)], ids=["with Leaven", "standalone"])
def test_a_program_finds_its_data_after_both_were_moved(form: tuple[str, ...], project: Path, tmp_path: Path) -> None:
    printed = generate("recipes/dogs.leaven", "-o", "programs/train.py", *form)
    assert "`cd programs && python train.py` trains" in printed
    moved = project.rename(tmp_path / "elsewhere")
    paths = paths_in(moved / "programs" / "train.py")
    assert len(paths) == 2
    assert all((moved / "programs" / path).exists() and not Path(path).is_absolute() for path in paths)


@pytest.mark.parametrize("form", [(), ("--standalone",)], ids=["with Leaven", "standalone"])
def test_a_program_does_not_name_a_home_folder(
    form: tuple[str, ...], project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    (tmp_path / "shared").mkdir()
    printed = generate("recipes/dogs.leaven", "-o", str(tmp_path / "shared" / "train.py"), *form)
    assert f"`cd recipes && python {tmp_path / 'shared' / 'train.py'}` trains" in printed
    program = tmp_path / "shared" / "train.py"
    assert sorted(paths_in(program)) == ["mine.py", "photos"]
    assert str(tmp_path) not in program.read_text()


def test_a_printed_program_has_no_absolute_path(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "programs")
    printed = generate("../recipes/dogs.leaven")
    assert '"../recipes/photos"' in printed
    assert str(project) not in printed


OWN_NET = """\
import helper
from torch import nn


class Net(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.out = nn.Linear(helper.WIDTH, classes)

    def forward(self, images):
        return self.out(images.flatten(1))
"""
OWN_RECIPE = """\
import "random.py" as random
model random.Net()
data digits() { split train=64 samples, val=32 samples, test=32 samples }
train epochs=1
"""


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe, and with files that have names of libraries."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.leaven").write_text(OWN_RECIPE)
    (tmp_path / "random.py").write_text(OWN_NET)
    (tmp_path / "helper.py").write_text("WIDTH = 64\n")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('not torch')\n")
    return tmp_path


def test_files_with_names_of_libraries_beside_a_program_are_noticed(hidden: Path) -> None:
    printed = generate("recipe.leaven", "-o", "train.py")
    assert "train.py: `python -P train.py` trains\n" in printed
    assert "note: without `-P`, Python imports random and torch from ./, not the library\n" in printed


@pytest.mark.slow
@pytest.mark.parametrize("form", [(), ("--standalone",)], ids=["with Leaven", "standalone"])
def test_the_command_that_is_printed_does_not_import_them(form: tuple[str, ...], hidden: Path) -> None:
    (command,) = re.findall("`(python.*)` trains", generate("recipe.leaven", "-o", "train.py", *form))
    words = [sys.executable, *shlex.split(command)[1:]]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len([*hidden.glob("runs/recipe/*/model.*")]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", [(), ("--standalone",)], ids=["with Leaven", "standalone"])
def test_a_moved_program_trains(form: tuple[str, ...], project: Path, tmp_path: Path) -> None:
    generate("recipes/dogs.leaven", "-o", "programs/train.py", *form)
    moved = project.rename(tmp_path / "elsewhere")
    run = subprocess.run([sys.executable, "train.py"], cwd=moved / "programs", capture_output=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr
    assert (moved / "recipes" / "runs" / "dogs").is_dir()
