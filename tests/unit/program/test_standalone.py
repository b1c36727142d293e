"""A program that stands alone runs where Leaven can't be imported, and ends with the weights of the normal program."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import leaven
from leaven import components, runtime
from leaven.program.standalone import standalone
from leaven.runtime.model.weights import read_weights
from leaven.runtime.run import commands, commands_alone

SPLIT = "split train=200 items, val=40 items, test=40 items"
RECIPES = {
    "components": f"""
        model conv(8) -> res_block(8) -> squeeze_excite(reduction=2) -> global_pool() -> linear(classes)
        data digits() {{ {SPLIT} }}
        train epochs=1
    """,
    "timm": f"""
        model timm.test_resnet()
        data digits() {{ {SPLIT}; eval resize(32) }}
        phase "head", epochs=1 {{ freeze all - head }}
        phase "all", epochs=1 {{ optimizer sgd(lr=0.01, momentum=0.9); schedule linear(warmup=2 steps) }}
    """,
    "augmented": f"""
        model torchvision.shufflenet_v2_x0_5()
        data digits() {{
            {SPLIT}
            train resize(36) -> random_crop(32) -> horizontal_flip()
            eval resize(32)
            workers 2
        }}
        loss focal(gamma=1.5)
        train epochs=1
    """,
    "careful": f"""
        import "net.py" as split
        model split.Net(width=12)
        data digits() {{ {SPLIT} }}
        mixup 0.2
        ema 0.9
        early_stop val.loss, patience=1 epoch
        schedule plateau(score=val.loss)
        train epochs=3, batch=16, accumulate=2, clip=1.0
    """,
}
NET = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__(nn.AdaptiveAvgPool3d((1, 8, 8)), nn.Flatten(), nn.Linear(64, width), nn.Linear(width, classes))
"""
UNFILLED = f"""model timm.test_resnet(weights="start.pth")
data digits() {{ {SPLIT} }}
"""
# Runs programs one after another, each in its own folder.
RUNNER = """
import os, runpy, sys


class NoLeaven:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "leaven":
            raise ModuleNotFoundError("there is no leaven here")


if sys.argv[1] == "without":
    sys.meta_path.insert(0, NoLeaven())
for program in sys.argv[2:]:
    os.chdir(os.path.dirname(program))
    sys.argv = [program]
    runpy.run_path(program, run_name="__main__")
"""


def furnish(folder: Path) -> Path:
    """A folder with the files that recipes name."""
    (folder / "net.py").write_text(NET)
    (folder / "start.pth").write_bytes(b"no weights")
    return folder


def generated(folder: Path, recipe: str) -> str:
    (folder / "trial.leaven").write_text(recipe)
    before = Path.cwd()
    os.chdir(folder)  # paths in a program start here
    try:
        return leaven.generate("trial.leaven")
    finally:
        os.chdir(before)


def everything() -> str:
    """A program that uses all there is."""
    folder = Path(components.__file__).parent
    blocks = {file.stem: ast.parse(file.read_text()).body for file in sorted(folder.glob("[a-z]*.py"))}
    classes = {node.name: stem for stem, body in blocks.items() for node in body if isinstance(node, ast.ClassDef)}
    return "\n".join(
        [
            '"""all.leaven, compiled by Leaven.\n\n    python program.py   train\n"""\n',
            "from leaven import runtime",
            *(f"from leaven.components.{stem} import {name}" for name, stem in classes.items()),
            "from leaven.tasks import classification as task\n",
            "ALL = [",
            *(f"    {name}," for name in classes),
            *(f"    runtime.{name}," for name in runtime.__all__),
            "    task.Mean,\n    task.evaluate,\n]\n",
        ]
    )


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(leaven.__file__).parents[1])}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=300)


def only_run(folder: Path) -> Path:
    (found,) = (folder / "runs" / "trial").iterdir()
    return found


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The normal programs, each in a folder with what it needs."""
    files = {}
    for name, recipe in {**RECIPES, "unfilled": UNFILLED}.items():
        folder = furnish(tmp_path_factory.mktemp(name))
        files[name] = folder / "program.py"
        files[name].write_text(generated(folder, recipe))
    return files


@pytest.fixture(scope="module")
def alone(normal: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same programs, standing alone, and one with everything in it."""
    files = {"everything": tmp_path_factory.mktemp("everything") / "program.py"}
    files["everything"].write_text(standalone(everything()))
    for name, file in normal.items():
        files[name] = furnish(tmp_path_factory.mktemp(f"{name}_alone")) / "program.py"
        files[name].write_text(standalone(file.read_text()))
    return files


@pytest.fixture(scope="module")
def normal_runs(normal: dict[str, Path]) -> dict[str, Path]:
    done = python("-c", RUNNER, "with", *(str(normal[name]) for name in RECIPES))
    assert done.returncode == 0, done.stderr
    return {name: only_run(normal[name].parent) for name in RECIPES}


@pytest.fixture(scope="module")
def lone_runs(alone: dict[str, Path]) -> dict[str, Path]:
    """The runs of the programs without Leaven; the last program fails, and what it says is in a file."""
    done = python("-c", RUNNER, "without", *(str(file) for file in alone.values()))
    (alone["unfilled"].parent / "said.txt").write_text(done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return {name: only_run(alone[name].parent) for name in RECIPES}


def read(file: Path) -> Any:
    return torch.load(file, map_location="cpu", weights_only=True)


def same(one: Any, other: Any) -> bool:
    """Whether two states are the same to the last bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


@pytest.mark.parametrize("name", RECIPES)
def test_it_ends_with_the_same_weights(name: str, normal_runs: dict[str, Path], lone_runs: dict[str, Path]) -> None:
    one, other = normal_runs[name], lone_runs[name]
    assert same(read(one / "best.ckpt"), read(other / "best.ckpt"))
    assert same(read(one / "last.ckpt")["state"], read(other / "last.ckpt")["state"])
    assert (one / "scores.json").read_text() == (other / "scores.json").read_text()


@pytest.mark.parametrize("name", RECIPES)
def test_it_saves_what_a_bundle_would_hold(name: str, normal_runs: dict[str, Path], lone_runs: dict[str, Path]) -> None:
    bundled, saved = read_weights(normal_runs[name] / "model.bundle"), read(lone_runs[name] / "model.pth")
    assert bundled.keys() == saved.keys()
    assert all(torch.equal(bundled[key], saved[key]) for key in bundled)


@pytest.mark.usefixtures("lone_runs")
def test_it_says_what_goes_wrong_at_which_line(alone: dict[str, Path]) -> None:
    said = (alone["unfilled"].parent / "said.txt").read_text()
    assert "error: start.pth can't be read as weights\n  --> program.py:" in said


# -- the text


def checked(*command: str) -> str:
    done = python("-m", *command)
    return done.stdout + done.stderr if done.returncode else ""


def test_it_is_formatted_and_sound(alone: dict[str, Path], cache: Path) -> None:
    files = [str(file) for file in alone.values()]
    assert checked("ruff", "check", "--isolated", "--line-length=120", "--select=E,F,I", *files) == ""
    assert checked("ruff", "format", "--isolated", "--line-length=120", "--check", *files) == ""
    options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={cache / 'mypy'}"]
    assert checked("mypy", *options, str(alone["everything"])) == ""


def test_nothing_of_leaven_is_imported(alone: dict[str, Path]) -> None:
    nodes = [node for file in alone.values() for node in ast.walk(ast.parse(file.read_text()))]
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [line for line in imports if "leaven" in line]


def test_it_says_what_to_install_and_how_to_go_on(alone: dict[str, Path]) -> None:
    text = alone["timm"].read_text()
    wanted = "torch torchvision timm lightning torchmetrics tqdm numpy pillow scikit-learn"
    assert f"\n    pip install {wanted}\n    python program.py " in text
    assert "leaven resume" not in text
    assert "--resume {folder}" in text


def test_only_what_is_needed_is_taken(alone: dict[str, Path]) -> None:
    body = ast.parse(alone["components"].read_text()).body
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {"Conv", "ResBlock", "Run", "digits", "evaluate"} <= defined
    assert not defined & {"MaxPool", "load_weights", "image_folder", "freeze", "linear", "FocalLoss"}


def test_a_name_of_the_users_keeps_its_meaning(alone: dict[str, Path]) -> None:
    text = alone["careful"].read_text()
    assert 'split_ = import_file("net.py", "split")' in text


def test_the_same_can_be_said_with_leaven_and_without() -> None:
    assert public(commands) == public(commands_alone)


def public(module: Any) -> set[str]:
    return {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
