"""What is exported answers as the bundle does, for batches of any size."""

import json
from pathlib import Path

import pytest
import timm
import torch
from torch import nn
from torchvision.transforms import v2 as T

from leaven import bundle
from leaven.bundle import Bundle, export
from leaven.runtime.failures import Failure
from leaven.tasks.classification import Classes

CLASSES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    steps = T.Compose([T.Resize([32, 32]), T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    file = tmp_path_factory.mktemp("export") / "net.bundle"
    model = timm.create_model("resnet10t", num_classes=4)
    built_by = bundle.Timm("resnet10t", num_classes=4)
    bundle.save(file, model, built_by=built_by, preprocess=steps, target=Classes(tuple(CLASSES)))
    return bundle.load(file)


def test_torch_export(net: Bundle, tmp_path: Path) -> None:
    file = net.export("torch_export", tmp_path / "net.pt2")
    notes = {"classes.json": "", "preprocess.json": ""}
    program = torch.export.load(file, extra_files=notes).module()
    for count in (1, 4):
        images = torch.rand(count, 3, 32, 32)
        assert torch.allclose(program(images), net.model(images), atol=1e-5)
    assert json.loads(notes["classes.json"]) == CLASSES
    assert json.loads(notes["preprocess.json"])["step"] == "Compose"


def test_onnx(net: Bundle, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    file = net.export("onnx", tmp_path / "net.onnx", size=48)
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for count in (1, 3):
        images = torch.rand(count, 3, 48, 48)
        (logits,) = session.run(["logits"], {"images": images.numpy()})
        assert torch.allclose(torch.from_numpy(logits), net.model(images), atol=1e-4)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == CLASSES


def test_the_file_is_written_beside_the_bundle_by_default(net: Bundle) -> None:
    assert net.export("torch_export") == net.path.with_suffix(".pt2")


def test_without_the_packages_it_the_help_is_to_install_it(
    net: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_NEEDED", ("onnx", "surely_not_installed"))
    with pytest.raises(Failure, match="surely_not_installed is not installed") as caught:
        net.export("onnx", tmp_path / "net.onnx")
    assert caught.value.help == "pip install surely_not_installed"


def test_a_model_that_can_not_be_exported_leaves_no_file(net: Bundle, tmp_path: Path) -> None:
    class Moody(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.mean((2, 3)) if images.sum().item() > 0 else images.amax((2, 3))

    stranger = Bundle(net.path, net.manifest, Moody(), net.preprocess, net.card, net._golden)
    with pytest.raises(Failure, match="the model can't be exported"):
        stranger.export("torch_export", tmp_path / "net.pt2")
    assert list(tmp_path.iterdir()) == []
