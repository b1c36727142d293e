"""Data for a model that keeps its published head: labels are outputs of the model."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import leaven
from leaven import runtime
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.torch_datasets import StreamDataset
from leaven.runtime.failures import Failure
from leaven.tasks import classification as task
from leaven.tasks.classification import Classes

OUTPUTS = {"tabby": 281, "n01440764": 0, "Golden_Retriever": 207}
RECIPE = """\
model efficientnet_lite0(pretrained=true, head=keep)
data folder("photos")
train epochs=1
"""


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in OUTPUTS:
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(5):
            Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def test_the_labels_of_a_folder_become_outputs(photos: Path) -> None:
    dataset = task.match_outputs(runtime.image_folder(photos), "imagenet-1k")
    assert isinstance(dataset, Dataset)
    assert dataset.values is not None
    given = [Path(dataset.name(at)).parent.name for at in range(len(dataset))]
    assert [OUTPUTS[name] for name in given] == list(dataset.values)
    assert dataset.target.plain(207) == "golden retriever"
    assert len(dataset.target.names) == 1000


def test_labels_that_only_loading_tells_become_outputs_too() -> None:
    dataset = Dataset(Classes(("tench", "tabby")), None, 2, lambda at: ("image", at), str)
    matched = task.match_outputs(dataset, "imagenet-1k")
    assert isinstance(matched, Dataset)
    assert [matched.load(0), matched.load(1)] == [("image", 0), ("image", 281)]


def test_what_has_no_output_stops_the_program() -> None:
    with pytest.raises(Failure, match="no output for the classes `0`, `1`, `2` and 7 more"):
        task.match_outputs(runtime.digits(), "imagenet-1k")
    stream = StreamDataset(Classes(("tench", "tabby")), {"train": []}, False)
    with pytest.raises(Failure, match="a stream"):
        task.match_outputs(stream, "imagenet-1k")


def test_a_stored_target_knows_wnids_and_names(photos: Path) -> None:
    dataset = task.match_outputs(runtime.image_folder(photos), "imagenet-1k")
    target = task.read_target(dataset.target.to_json())
    assert target == dataset.target
    measured = task.folder(photos, target, ())
    assert measured.values is not None
    assert set(measured.values) == set(OUTPUTS.values())


def test_the_program_matches_labels_with_outputs(photos: Path) -> None:
    recipe = photos.parent / "kept.leaven"
    recipe.write_text(RECIPE)
    assert leaven.check(recipe).diagnostics == ()
    assert 'dataset = task.match_outputs(dataset, "imagenet-1k")  # line 1' in leaven.generate(recipe)
