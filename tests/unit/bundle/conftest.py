"""A model that tells red, green and blue pictures apart, so that what it says can be known beforehand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn
from torchvision.transforms import v2 as T

from leaven import bundle
from leaven.bundle import Bundle
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.tasks.classification import Classes

COLOURS = ("red", "green", "blue")
TARGET = Classes(COLOURS)
PARTS = [
    ("Conv", {"in_channels": 3, "channels": 3, "kernel": 1, "norm": False, "activation": None}),
    ("GlobalPool", {}),
    ("Linear", {"in_channels": 3, "features": 3}),
]


def colour_net() -> nn.Module:
    conv = Conv(3, 3, kernel=1, norm=False, activation=None)
    linear = Linear(3, 3)
    with torch.no_grad():
        conv.conv.weight.copy_(torch.eye(3)[:, :, None, None])
        conv.conv.bias.zero_()
        linear.weight.copy_(torch.eye(3) * 10)
        linear.bias.zero_()
    return nn.Sequential(conv, GlobalPool(), linear)


def colour_steps() -> T.Compose:
    return T.Compose([T.Resize(20), T.CenterCrop(16), T.ToImage(), T.ToDtype(torch.float32, scale=True)])


def save_colours(file: Path, target: Classes = TARGET, **more: Any) -> Path:
    """Write a bundle of the model, whose outputs may have other names."""
    return bundle.save(
        file,
        colour_net(),
        built_by=bundle.Components(PARTS),
        preprocess=colour_steps(),
        target=target,
        **more,
    )


@pytest.fixture(scope="session")
def colours_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the model, in a file."""
    return save_colours(tmp_path_factory.mktemp("bundles") / "colours.bundle", scores={"test.accuracy": 1.0})


@pytest.fixture
def colours(colours_file: Path) -> Bundle:
    return bundle.load(colours_file)


@pytest.fixture
def paint(tmp_path: Path) -> Callable[..., Path]:
    """Writes a picture of one colour; its ending says how."""

    def painted(name: str, colour: object = "red", *, mode: str = "RGB", size: tuple[int, int] = (40, 30)) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, colour).save(file)  # type: ignore[arg-type]
        return file

    return painted
