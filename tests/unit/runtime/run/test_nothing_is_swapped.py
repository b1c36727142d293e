"""While a program trains, its model and the libraries are those that it was written for: no method, hook or attribute
is swapped behind its back. Where its line `phase.watch(…)` says that layers are measured, their hooks are there.

User code looks: a technique at the model before its phase is set up, a loss inside of each step, and a model at the
libraries while it is built.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.pages import carry_out

OWN = '''
import json
import os
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks")
LIBRARIES = ("timm", "timm.models", "torchvision.models")


class Before:
    def on_model(self, model):
        write("before", model)


def loss(outputs, targets):
    if torch.is_grad_enabled():
        write("step", phase_of_program().model)
    return cross_entropy(outputs, targets)


class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        write("building", self)
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, classes)

    def forward(self, images):
        return self.head(self.body(images))


def write(kind, model):
    phase = phase_of_program()
    run, name = (str(phase.run.folder), phase.name) if phase is not None else ("", "")
    seen = {**ids(), **insides(model)}
    with open("WATCHED", "a") as file:
        print(json.dumps({"kind": kind, "process": os.getpid(), "run": run, "phase": name, "seen": seen}), file=file)


def phase_of_program():
    frame = sys._getframe()
    while frame is not None and not hasattr(frame.f_locals.get("phase"), "run"):
        frame = frame.f_back
    return frame and frame.f_locals["phase"]


def ids():
    """The functions in the classes and builders of libraries."""
    owners = {name: sys.modules[name] for name in LIBRARIES if name in sys.modules}
    owners |= {kind.__name__: kind for kind in (nn.Module, nn.Conv2d, nn.Linear, torch.optim.Optimizer, Net)}
    named = [(f"{owner}.{name}", value) for owner, found in owners.items() for name, value in vars(found).items()]
    return {name: id(value) for name, value in named if callable(value)}


def insides(model):
    """The classes, attributes and hooks of all layers."""
    found = {}
    for path, module in model.named_modules():
        found[f"{path}: class"] = [id(kind) for kind in type(module).__mro__]
        found[f"{path}: attributes"] = sorted(vars(module))
        found |= {f"{path}: {name}": [id(hook) for hook in vars(module)[name].values()] for name in HOOKS}
    return found


write("import", nn.Sequential())
'''
RECIPE = """
import "own.py"
arg lr: float = 0.1
data digits() {{ split train=90 samples, val=40 samples, test=40 samples }}
loss own.loss
optimizer sgd(lr=lr)
watch {watched}
{rest}
"""
CHAIN = "model conv(8, stride=2) -> conv(8) -> global_pool() -> linear(classes)\n"
FROZEN = 'freeze "0" + "1"; own.Before'
RECIPES = {
    "stored head": f'{CHAIN}phase "one", epochs=2 {{ {FROZEN} }}\nphase "two", epochs=1 {{ own.Before }}',
    "bf16": f"{CHAIN}{FROZEN}\ntrain epochs=2, precision=bf16",
    "average": f"{CHAIN}{FROZEN}\nema 0.9\ntrain epochs=2",
    "teacher": f'{CHAIN}phase "one", epochs=1 {{ own.Before }}\n'
    f'phase "two", epochs=2 {{ {FROZEN}; distill before_phase("one") }}',
    "adapters": f'{CHAIN}phase "one", epochs=1 {{ own.Before }}\nphase "two", epochs=2 {{ lora rank=2; own.Before }}',
    "trials": f"{CHAIN}{FROZEN}\ntrain epochs=2\nsweep lr, [0.01, 0.1]",
    "own": "model own.Net()\nfreeze body; own.Before\ntrain epochs=2",
}


def watched(recipe: str, folder: Path, watched: str = "every=none") -> list[dict[str, Any]]:
    """What user code has seen in a run of the recipe."""
    (folder / "own.py").write_text(OWN.replace("WATCHED", f"{folder}/watched.jsonl"))
    (folder / "r.leaven").write_text(RECIPE.format(rest=recipe.replace("; ", "\n"), watched=watched))
    code, said = carry_out("leaven run r.leaven", folder)
    assert code == 0, said
    assert "run in every epoch, because" not in said
    assert "every trial runs its own" not in said
    return [json.loads(line) for line in (folder / "watched.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", RECIPES)
def test_inside_of_each_step_everything_is_as_before_the_phase(name: str, tmp_path: Path) -> None:
    phases: dict[Any, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for one in watched(RECIPES[name], tmp_path):
        phases[one["process"], one["run"], one["phase"]][one["kind"]].append(one["seen"])
    trained = [found for found in phases.values() if found["step"]]
    assert len(trained) == (2 if "phase" in RECIPES[name] or name == "trials" else 1)
    for found in trained:
        before = found["before"][0]
        assert len(found["step"]) >= 3
        for seen in found["step"]:
            assert {where for where in {**before, **seen} if before.get(where) != seen.get(where)} == set()


def test_a_layer_has_a_hook_only_in_the_steps_that_the_program_says_are_measured(tmp_path: Path) -> None:
    seen = watched(RECIPES["own"], tmp_path, '"body.1" + head, every=2 steps')
    before = next(one["seen"] for one in seen if one["kind"] == "before")
    steps = [one["seen"] for one in seen if one["kind"] == "step"]
    changed = [{where for where in step if before.get(where) != step[where]} for step in steps]
    hooks = {"body.1: _forward_hooks", "head: _forward_hooks"}
    assert changed == [set(), hooks, set(), hooks, set(), hooks]
    (program,) = tmp_path.glob("runs/*/*/program.py")
    assert 'phase.watch("body.1", "head", every=2)' in program.read_text()


def test_while_a_model_is_built_libraries_and_classes_are_as_they_were_imported(tmp_path: Path) -> None:
    imported: dict[int, dict[str, Any]] = {}  # by process: that of the run, and those that try the bundle
    builds = 0
    for one in watched(RECIPES["own"], tmp_path):
        seen = one["seen"]
        if one["kind"] == "import":
            imported[one["process"]] = seen
        if one["kind"] == "building":
            before = imported[one["process"]]
            functions = before.keys() & seen.keys() - {": class"}
            assert {"Net.__init__", "timm.create_model", "torchvision.models.resnet18"} <= functions
            assert {where for where in functions if before[where] != seen[where]} == set()
            builds += 1
    assert builds
