"""Texts of a recipe stay texts in its program, whatever they say; its names are names that Python can have."""

import argparse
import ast
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests import at_work

import leaven
from leaven.formats.program_flags import RESERVED
from leaven.plan import plan as plans
from leaven.plan import values
from leaven.plan.plan import Plan
from leaven.plan.plan_json import from_json, to_json
from leaven.program.emit import emit
from leaven.program.standalone import standalone
from leaven.runtime.run import arguments
from leaven.terminal.visible import visible

RECIPES = {
    "photos": """\
# What this is for.
extends "base.leaven"
import "mine.py"
arg lr: float = 1e-3 "the rate"
arg photos: path = "photos" "where they are"
arg kind: choice["a", "b"] = "a"
arg tag: text = "v1"
model mine.Net(tag, kind)
data folder(photos) { eval resize([32, 32]) }
output "out"
checkpoint by=val.loss
phase "first", epochs=1 { freeze all - body; early_stop val.loss }
phase "second", epochs=2 {
    optimizer adamw(lr=lr) { group body, lr=1e-4 }
    reinit body
    distill before_phase("first")
    override after_epoch, mine.report
}
""",
    "table": """\
# What this is for.
model conv(8) -> global_pool() -> linear(classes)
data csv("birds.csv", image="file", label="bird") {
    eval resize([32, 32]) -> to_image() -> to_dtype(float32, scale=true)
}
phase "first", epochs=1
phase "second", epochs=2
""",
}
MINE = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, tag: str, kind: str, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))
        self.out = nn.Linear(4, classes)

    def forward(self, images):
        return self.out(self.body(images))


def report(phase, model, scores) -> None: ...
"""
NO_TEXT = {  # what the catalog or the grammar decides: paths of imports, parameters, words with a fixed choice
    plans.ReadData: ("table",),
    plans.FreezeLayers: ("norms", "dropout"),
    plans.Override: ("hook", "function"),
    plans.ProgramArg: ("name", "type"),
    plans.Task: ("name", "outputs"),
    plans.UseSchedule: ("stepped_by",),
    plans.UseTechnique: ("name", "hooks", "wants", "models"),
    plans.UnfreezeLater: ("norms",),
    plans.UserModule: ("alias",),
    values.Argument: ("name",),
    values.ArgValue: ("name",),
    values.Calculation: ("operator",),
    values.Call: ("target",),
    values.Reference: ("target", "member"),
    values.Variable: ("name",),
}
HOSTILE = [
    '"""+str(__import__("os").system("touch PWNED"))+"""',
    "'''",
    '"',
    "\\",
    "\\N{BULLET}\\x",
    "\n__import__('os')\n",
    "\r",
    "\x0c\x0b\x1c\x85\u2028",
    "\x00",
    "\ud800",
    "{args} %s %(default)s $HOME `id`",
    "# noqa",
    "x" * 300,
    "y" * 300 + " " + "z" * 300,
    " ",
    "",
    "ﬁ²",
]
OTHERS = st.text(st.characters(blacklist_characters="*?["), max_size=5)  # with these, names of layers are globs
texts = st.lists(st.sampled_from(HOSTILE) | OTHERS, max_size=4).map("".join)


@pytest.fixture(scope="module")
def plan_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "base.leaven").write_text("loss cross_entropy(label_smoothing=0.1)\n")
    (folder / "mine.py").write_text(MINE)
    (folder / "birds.csv").write_text("file,bird\n" + "".join(f"photos/a/{n}.png,{'ab'[n % 2]}\n" for n in range(8)))
    for number in range(16):
        place = folder / "photos" / "ab"[number // 8] / f"{number % 8}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (number * 9, 0, 0)).save(place)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, recipe in RECIPES.items():
            (folder / "recipe.leaven").write_text(recipe)
            found[name] = leaven.make_plan(Path("recipe.leaven"))
    return found


def with_texts(value: Any, change: Callable[[str], str], *, is_text: bool = True) -> Any:
    """A plan with other texts: all strings in it, except those that are no texts."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = NO_TEXT.get(type(value), ())
        if isinstance(value, plans.UserModule) and not value.is_file:
            kept = (*kept, "target")
        changed = {
            each.name: with_texts(getattr(value, each.name), change, is_text=each.name not in kept)
            for each in fields(value)
        }
        return replace(value, **changed)
    if isinstance(value, tuple):
        return tuple(with_texts(each, change, is_text=is_text) for each in value)
    return change(value) if isinstance(value, str) and is_text else value


def shape(program: str) -> str:
    """A program without its texts, and with numbers in place of the names that come from those of phases."""
    tree = ast.parse(program.encode())
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
        if isinstance(node, ast.FunctionDef) and node.name.startswith("train_"):
            names[node.name] = node.name = f"train_{len(names)}"
        if isinstance(node, ast.Name) and node.id.startswith("model_before_"):
            names.setdefault(node.id, f"model_before_{len(names)}")
    return re.sub(r"\b(train|model_before)_\w+", lambda name: names.get(name[0], name[0]), ast.dump(tree))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("write", [emit, pytest.param(standalone, marks=pytest.mark.slow)])
def test_texts_stay_texts(plan_of: dict[str, Plan], name: str, write: Callable[[Plan], str]) -> None:
    plan = plan_of[name]
    harmless = shape(write(with_texts(plan, lambda text: f"a{text}z")))

    @given(before=texts, after=texts.filter(bool))
    @settings(max_examples=60, deadline=None, database=None)
    def check(before: str, after: str) -> None:
        assert shape(write(with_texts(plan, lambda text: f"{before}{text}{after}"))) == harmless

    check()


def test_a_text_means_what_the_recipe_says(plan_of: dict[str, Plan]) -> None:
    """Nothing is lost by quoting: the program's strings are those of the plan."""
    for text in HOSTILE:
        plan = with_texts(plan_of["photos"], lambda one, text=text: f"{one}{text}")  # type: ignore[misc]
        strings = {node.value for node in ast.walk(ast.parse(emit(plan).encode())) if isinstance(node, ast.Constant)}
        printed = visible(f"the rate{text}").replace("%", "%%")  # by `--help`, in a terminal
        assert {f"first{text}", f"out{text}", printed, f"v1{text}"} <= strings
        assert from_json(to_json(plan)) == plan


NASTY = 'x"""+str(__import__("os").system("touch PWNED"))+""".leaven'


def test_the_names_of_recipes_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"base{NASTY}").write_text("model conv(8) -> global_pool() -> linear(classes)\ntrain epochs=1\n")
    base = NASTY.replace('"', '\\"')
    (tmp_path / NASTY).write_text(f'extends "base{base}"\ndata digits()\n')
    plan = leaven.make_plan(Path(NASTY))
    found = [node for node in ast.walk(ast.parse(emit(plan))) if isinstance(node, ast.Name)]
    assert "__import__" not in {node.id for node in found}


# -- names

FILES = {
    "class.py": """\
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes: int, **more) -> None:
        super().__init__()
        print("built with", more)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))

    def forward(self, images):
        return self.layers(images)
""",
    "loss.py": """\
from torch.nn.functional import cross_entropy


def loss(outputs, targets):
    return cross_entropy(outputs, targets)
""",
    "torch.py": """\
import sys


def optimizer(parameters, lr: float):
    return sys.modules["torch"].optim.SGD(parameters, lr=lr)
""",
    "train_a.py": 'def report(phase, model, scores): print("after the first")\n',
    "len.py": 'def report(phase, model, scores): print("after the second")\n',
}
NAMED_LIKE_OTHERS = """\
import "class.py"
import "loss.py"
import "torch.py"
import "train_a.py"
import "len.py"
arg from_phase: float = 0.1
arg more_²: float = 0.5
arg ﬁ: float = 0.25
arg fi: float = 0.75
arg __class__: float = 0.9
arg def: int = 2
arg args: float = 1e-3
model class.Net(class=def, ﬁ=ﬁ)
data digits()
loss loss.loss
phase "a", epochs=1 { optimizer torch.optimizer(lr=args); override after_epoch, train_a.report }
phase "b", epochs=1 {
    optimizer sgd(lr=from_phase, momentum=__class__, weight_decay=more_²)
    override after_epoch, len.report
    mixup fi
}
"""


def test_names_of_files_and_args_may_be_those_of_python_and_the_program(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = at_work.run(at_work.program(tmp_path, NAMED_LIKE_OTHERS), "--quick")
    for line in ("built with {'class': 2, 'ﬁ': 0.25}", "after the first", "after the second"):
        assert line in done.said


def test_flags_of_every_program_are_no_names_for_args() -> None:
    """What the check refuses is what the runtime adds."""
    parser = argparse.ArgumentParser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["program.py"])
        arguments.parse(parser, output="runs")
    flags = {action.option_strings[-1].removeprefix("--").replace("-", "_") for action in parser._actions}
    assert flags - {"output"} <= RESERVED
