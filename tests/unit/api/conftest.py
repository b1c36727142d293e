"""A lab on a folder with a model of colours, photos and a recipe; and one with a model that does harm."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from tests.unit.api.served_lab import ServedLab, serving_lab
from tests.unit.bundle.conftest import colour_steps, save_colours

from leaven import bundle
from leaven.runtime.user_code import import_file
from leaven.tasks.classification import Classes

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

RECIPE = """\
model conv(4) -> global_pool() -> linear(classes)
data  digits() { split train=200 samples, val=50 samples, test=100 samples, seed=3 }
train epochs=2, batch=64, seed=1
"""
WILD = """
    import os
    import time

    import torch
    from torch import nn

    print("this is no answer", flush=True)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.linear = nn.Linear(3, 3)

        def forward(self, images):
            colour = "".join(str(round(float(each))) for each in images.mean((0, 2, 3)))
            exact = bool((images == images.round()).all())
            if exact and colour == "010":
                time.sleep(600)
            if exact and colour == "001":
                kept = [torch.ones(50_000_000) for _ in range(100)]
            if exact and colour == "101":
                os.kill(os.getpid(), 9)
            if exact and colour == "110":
                time.sleep(1.0)
            return self.linear(self.pool(images).flatten(1))
"""
PAINTS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "magenta": (255, 0, 255)}
PAINTS |= {"yellow": (255, 255, 0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lab") / "work"
    place.mkdir()
    for name, colour in PAINTS.items():
        Image.new("RGB", (40, 40), colour).save(place / f"{name}.png")
    save_colours(place / "colours.bundle")
    save_colours(place / "others.bundle", target=Classes(("a", "b", "c")))
    (place / "small.leaven").write_text(RECIPE)
    return place


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[ServedLab]:
    with serving_lab(folder, ".") as served:
        yield served


@pytest.fixture(scope="module")
def wild_file(folder: Path) -> Path:
    """A bundle whose code hangs at green, fills memory at blue, kills its process at magenta, and is slow at yellow."""
    source = folder.parent / "wild.py"
    source.write_text(textwrap.dedent(WILD))
    torch.manual_seed(0)
    net = import_file(str(source), "wild").Net()
    file = folder / "wild.bundle"
    bundle.save(file, net, built_by=bundle.Own(source, "Net", {}), preprocess=colour_steps(), target=_TARGET)
    return file


_TARGET = Classes(("red", "green", "blue"))
