"""Whoever edits `build_model` gets a working bundle, which runs that function for those who trust it."""

from pathlib import Path

import pytest
import torch
from tests import at_work

import leaven
from leaven.runtime.failures import Failure

DATA = "data digits() { split train=40 samples, val=20 samples, test=20 samples; eval resize(32) }\ntrain epochs=1\n"
TIMM = "model timm.test_resnet()\n" + DATA
COMPONENTS = "model conv(4) -> global_pool() -> linear(classes)\n" + DATA
OWN = 'import "net.py" as mine\nmodel mine.Net(width=3)\n' + DATA
NET = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__(nn.Conv2d(1, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))
"""
CALL = 'return timm.create_model("test_resnet", num_classes=num_classes)  # line 1'
EDITS = {  # a recipe, a line of its program, and what it is edited to
    "another model": (TIMM, CALL, 'return timm.create_model("test_efficientnet", num_classes=num_classes)'),
    "other arguments": (TIMM, CALL, 'return timm.create_model("test_resnet", num_classes=num_classes, in_chans=3)'),
    "a head in two steps": (
        TIMM,
        CALL,
        'model = timm.create_model("test_resnet"); runtime.replace_head(model, "fc", num_classes); return model',
    ),
    "another component": (COMPONENTS, "Conv(1, 4),", "Conv(1, 4), Conv(4, 4, kernel=5),"),
    "a layer of torch's": (COMPONENTS, "GlobalPool(),", "nn.Conv2d(4, 4, 3), nn.Dropout(0.5), GlobalPool(),"),
    "dropout before the head": (
        TIMM,
        CALL,
        'model = timm.create_model("test_resnet", num_classes=num_classes)\n'
        "    model.fc = nn.Sequential(nn.Dropout(0.3), model.fc)\n    return model",
    ),
    "another activation": (
        TIMM,
        CALL,
        'model = timm.create_model("test_resnet", num_classes=num_classes)\n'
        "    model.act1 = nn.GELU()\n    return model",
    ),
    "nothing": (TIMM, CALL, CALL),
    "nothing, in a program of components": (COMPONENTS, "GlobalPool(),", "GlobalPool(),"),
    "nothing, around a model of one's own": (OWN, "mine.Net", "mine.Net"),
    "a model of one's own": (OWN, "return mine.Net", "return nn.Sequential(nn.ReLU(), *mine.Net"),
}
RUN_NO_CODE = ("nothing", "nothing, in a program of components")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    files = {}
    for name, (recipe, line, edited) in EDITS.items():
        folder = tmp_path_factory.mktemp("edited")
        (folder / "net.py").write_text(NET)
        files[name] = at_work.program(folder, recipe)
        text = files[name].read_text()
        assert line in text
        text = text.replace(line, edited)
        if "nn.Sequential(nn.ReLU(), *mine" in text:
            text = text.replace("classes=num_classes)  # line 2", "classes=num_classes))")
        files[name].write_text(text)
    assert not at_work.run_each(list(files.values()), "--devices", "1")
    return {name: at_work.run_folder(file) / "model.bundle" for name, file in files.items()}


@pytest.mark.parametrize("name", EDITS)
def test_the_bundle_has_the_model_that_was_trained(
    name: str, bundles: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "moved.bundle"  # as a stranger has it, without the files beside it
    moved.write_bytes(bundles[name].read_bytes())
    monkeypatch.chdir(tmp_path)
    needs_trust = name not in RUN_NO_CODE
    if needs_trust:
        with pytest.raises(Failure, match="needs code"):
            leaven.load(moved)
    model = leaven.load(moved, trust_code=needs_trust).model
    best = torch.load(bundles[name].parent / "best.ckpt", weights_only=True)["model"]
    state = model.state_dict()
    assert list(state) == list(best)
    assert all(torch.equal(state[key], best[key]) for key in state)


def test_a_run_says_when_its_bundle_needs_trust(bundles: dict[str, Path]) -> None:
    for name, bundle in bundles.items():
        said = (bundle.parents[3] / "recipe.log").read_text()
        assert ("--trust-code" in said) is (name not in RUN_NO_CODE), name
