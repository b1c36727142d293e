"""Techniques and models in user code: what they change is trained, saved and loaded, or refused before training."""

from pathlib import Path

import pytest
import torch
from tests import at_work

import leaven
from leaven.runtime.failures import Failure

MODEL = "model conv(4) -> global_pool() -> linear(classes)\n"
DATA = "data digits() { split train=40 samples, val=20 samples, test=20 samples }\ntrain epochs=1, batch=8\n"
CODE = '''
import torch
from torch import nn


class Widen:
    """A second layer in the head; what it is made with is the recipe's and the program's."""

    def __init__(self, model, classes, width: int = 3):
        self.features, self.classes, self.width = model[-1].in_features, classes, width

    def on_model(self, model):
        layers = nn.Linear(self.features, self.width), nn.Tanh(), nn.Linear(self.width, self.classes)
        model[-1] = nn.Sequential(*layers)


class Soften:
    """A layer after the head that has no weights."""

    def on_model(self, model):
        model.append(nn.Softsign())


class Restart:
    """New values for weights, which any bundle holds."""

    def __init__(self, data):
        self.classes = data.classes

    def on_model(self, model):
        nn.init.zeros_(model[-1].weight)


class OnePerClass:
    """A layer that can't be made again without the data."""

    def __init__(self, data):
        self.classes = data.classes

    def on_model(self, model):
        model.append(nn.Linear(len(self.classes), len(self.classes)))


class Scaled:
    """A loss with a parameter of its own."""

    def __init__(self, criterion, optimizer, start: float = 0.0):
        self.criterion, self.optimizer = criterion, optimizer
        self.scale = nn.Parameter(torch.tensor(start))

    def parameters(self):
        return [self.scale]

    def on_loss(self, loss, images, outputs, targets):
        assert any(self.scale is each for group in self.optimizer.param_groups for each in group["params"])
        return self.criterion(outputs * self.scale.exp(), targets)

    def at_end(self, model):
        print(f"scale {self.scale.item():.6f}")


class Net(nn.Module):
    def __init__(self, classes, width=4):
        super().__init__()
        self.conv, self.fc, self.aux = nn.Conv2d(1, width, 3), nn.Linear(width, classes), nn.Linear(width, 10)

    def forward(self, images):
        return self.fc(self.conv(images).mean((2, 3)))
'''
RUNS = {  # what a recipe says, and whether loading its bundle needs trust
    "layers with weights": (f"{MODEL}mine.Widen width=5\n", True),
    "a layer without weights": (f"{MODEL}mine.Soften\n", True),
    "two changes": (f"{MODEL}mine.Widen\nmine.Soften\n", True),
    "a change of a published model": ("model timm.test_resnet(in_chans=1)\nmine.Restart2\n", False),
    "only weights": (f"{MODEL}mine.Restart\n", False),
    "a loss with parameters": (f"{MODEL}mine.Scaled start=0.5\n", False),
    "a head by its name": ('model mine.Net(head="fc")\nfreeze all - head\n', True),
    "a head for other classes": ('model mine.Net(classes=7, head="fc")\n', True),
}
MORE = """

class Restart2(Restart):
    def __init__(self): ...

    def on_model(self, model):
        nn.init.zeros_(model.fc.weight)
"""


def written(folder: Path, lines: str) -> Path:
    (folder / "tricks.py").write_text(CODE + MORE)
    return at_work.program(folder, f'import "tricks.py" as mine\n{lines}{DATA}')


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    files = {name: written(tmp_path_factory.mktemp("own"), lines) for name, (lines, _) in RUNS.items()}
    ended = at_work.run_each(list(files.values()), "--devices", "1")
    assert not ended, ended
    return files


@pytest.mark.parametrize("name", RUNS)
def test_the_bundle_has_the_model_that_was_trained(
    name: str, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, needs_trust = at_work.run_folder(runs[name]), RUNS[name][1]
    moved = tmp_path / "moved.bundle"  # as a stranger has it, without the files beside it
    moved.write_bytes((run / "model.bundle").read_bytes())
    monkeypatch.chdir(tmp_path)
    if needs_trust:
        with pytest.raises(Failure, match="needs code"):
            leaven.load(moved)
    state = leaven.load(moved, trust_code=needs_trust).model.state_dict()
    best = torch.load(run / "best.ckpt", weights_only=True)["model"]
    assert list(state) == list(best)
    assert all(torch.equal(state[key], best[key]) for key in state)
    assert ("--trust-code" in runs[name].with_suffix(".log").read_text()) is needs_trust


def test_a_parameter_of_a_technique_is_trained(runs: dict[str, Path]) -> None:
    said = runs["a loss with parameters"].with_suffix(".log").read_text()
    assert "scale " in said
    assert "scale 0.500000" not in said


def test_the_layer_that_is_named_as_the_head_is_the_one_that_is_trained(runs: dict[str, Path]) -> None:
    folder = at_work.run_folder(runs["a head by its name"])
    first, second = (torch.load(folder / name, weights_only=True) for name in ("best.ckpt", "last.ckpt"))
    assert first["model"]["fc.weight"].shape == (10, 4)
    assert set(second["state"]["optimizer"]["state"]) == {0, 1}, "only weight and bias of the head have a state"


def test_a_change_that_no_bundle_could_repeat_is_refused_before_training(tmp_path: Path) -> None:
    file = written(tmp_path, f"{MODEL}mine.OnePerClass\n")
    running = at_work.start(file, "--devices", "1")
    assert running.end() == 1
    assert "error: the model could not be saved: what OnePerClass.on_model changes can't be repeated: " in running.said
    assert "a bundle can't hold the argument `data` of OnePerClass" in running.said
    assert "recipe.leaven:3" in running.said
    assert not running.epochs
    assert not (at_work.run_folder(file) / "last.ckpt").exists()


def test_a_head_that_the_model_does_not_have_is_found_by_a_check(tmp_path: Path) -> None:
    (tmp_path / "tricks.py").write_text(CODE)
    recipe = tmp_path / "recipe.leaven"
    recipe.write_text(f'import "tricks.py" as mine\nmodel mine.Net(head="fcc")\n{DATA}')
    (found,) = leaven.check(recipe, run_code=True).diagnostics
    assert (found.id, found.headline) == ("unknown-layer", "mine.Net has no layer named `fcc`")
    assert found.fix is not None
    assert '"fc"' in str(found.fix)
