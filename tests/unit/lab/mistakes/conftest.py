"""A run on images in folders, whose names are hostile, with its record of samples."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests import at_work

from leaven.formats.run_folder import PROGRAM

COLOURS = {"<b>red": (150, 90, 90), "green": (90, 150, 90)}
HOSTILE = "<img src=x onerror=alert(1)>.png"
COUNT = 12  # of each class, in each split


def draw(folder: Path, seed: int) -> None:
    """Noisy images of each colour; the first of each has a hostile name."""
    rng = np.random.default_rng(seed)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(COUNT):
            pixels = np.clip(rng.normal(colour, 90, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / (f"{number}.png" if number else HOSTILE))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, with its data in `photos` above it."""
    place = tmp_path_factory.mktemp("errors")
    for at, split in enumerate(("train", "val", "test")):
        draw(place / "photos" / split, at)
    recipe = f"""
model conv(4) -> global_pool() -> linear(classes)
data  folder("{place / "photos"}") {{ eval resize(8) }}
train epochs=4, batch=8, seed=1
"""
    made = at_work.new_run(place, recipe)
    at_work.run(made / PROGRAM, "--resume", str(made))
    return made


@pytest.fixture
def photos(finished: Path) -> Path:
    return finished.parents[1] / "photos"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "run"))
