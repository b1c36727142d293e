"""Asking for a model's layers: once of a subprocess, then of the cache."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import at_work

from leaven.cache import disk_cache
from leaven.catalog import layers, process
from leaven.catalog.layers import Layers

RESNET: dict[str, Any] = {"target": "timm.create_model", "timm_name": "resnet18", "arguments": {"in_chans": 1}}


def ask(request: dict[str, Any], seconds: float = 300.0) -> Layers:
    answer = layers.ask(request, seconds)
    assert answer is not None
    return answer


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that no other test reads, to be damaged."""
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("own_cache")
def test_the_layers_of_a_model_are_listed_and_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "run", at_work.in_a_new_process)
    told = ask(RESNET)
    assert told.error == ""
    assert (told.head, told.stem) == (("fc",), ("conv1", "bn1"))
    assert told.stages == (("layer1",), ("layer2",), ("layer3",), ("layer4",))
    assert (told.input_channels, told.classes, told.fixed_input_size) == (1, 1000, None)
    assert told.is_forward_order
    first = told.parameters[0]
    assert (first.name, first.count, first.shape) == ("conv1.weight", 64 * 49, (64, 1, 7, 7))
    assert (first.module_type, first.module_path) == ("Conv2d", "conv1")
    assert sum(parameter.count for parameter in told.parameters) == 11_683_240
    assert ("layer4.1.bn2", "BatchNorm2d", False) in told.modules
    assert ask(RESNET, seconds=0.001) == told  # so short that only the cache can answer


def test_arguments_that_a_model_refuses_are_reported() -> None:
    told = ask({"target": "torchvision.models.resnet18", "arguments": {"wibble": 1}})
    assert "unexpected keyword argument 'wibble'" in told.error
    assert not told.is_unanswered
    assert told.parameters == ()


def test_a_timeout_is_reported_and_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path))
    told = ask(RESNET, seconds=0.01)
    assert "longer than 0.01 seconds" in told.error
    assert told.is_unanswered
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_damaged_answer_is_computed_again(own_cache: Path) -> None:
    before = ask(RESNET)
    assert _changed(own_cache, lambda kept: kept[:1000])
    assert ask(RESNET) == before


@pytest.mark.parametrize("head", ["", '"head":null,', '"head":7,', '"head":["wrong"],'])
def test_an_edited_answer_is_computed_again(own_cache: Path, head: str) -> None:
    before = ask(RESNET)
    assert _changed(own_cache, lambda kept: kept.replace('"head":["fc"],', head))
    assert ask(RESNET) == before


def _changed(cache: Path, change: Callable[[str], str]) -> list[Path]:
    """Changes what is kept about a model; the answer is what was changed."""
    files = [file for file in cache.glob("layers/*/*.jsonl") if "resnet18" in file.read_text()]
    for file in files:
        file.write_text(change(file.read_text()))
    return files


def test_an_answer_to_another_question_is_not_taken(own_cache: Path) -> None:
    """Files are named by a short checksum, which two requests may share."""
    before = ask(RESNET)
    for file in own_cache.glob("layers/*/*.jsonl"):
        kept = disk_cache.open_json(file)
        if kept and "resnet18" in kept["request"] and "in_chans" in kept["request"]:
            kept["request"], kept["head"] = "another", ["wrong"]
            disk_cache.write_json(str(file.relative_to(own_cache)), kept)
    assert ask(RESNET).head == before.head


def test_a_users_model_is_built_from_its_file_each_time(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("WIDTH = 8\n")
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import torch\nfrom torch import nn\nfrom parts import WIDTH\n"
        "print('loaded')\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, classes=10):\n"
        "        super().__init__()\n"
        "        self.body = nn.Conv2d(1, WIDTH, 3)\n"
        "        self.out = nn.Linear(WIDTH, classes)\n"
        "    def forward(self, x):\n"
        "        return self.out(self.body(x).mean((2, 3)))\n"
    )
    request = {"file": str(mine), "name": "Net", "arguments": {"classes": 5}}
    told = ask(request)
    assert (told.head, told.classes, told.input_channels) == (("out",), 5, 1)
    mine.write_text("raise RuntimeError('not today')\n")
    assert ask(request).error == "RuntimeError: not today"


def test_a_request_that_is_not_plain_data_is_refused() -> None:
    with pytest.raises(TypeError):
        layers.ask({"target": "torchvision.models.resnet18", "arguments": {"norm_layer": object()}})
