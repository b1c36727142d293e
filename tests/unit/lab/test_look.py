"""What is seen of a recipe's data is what its program trains on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2 as T

import leaven
from leaven.lab.look import MOST, look
from leaven.lab.tracing.contents import pixels
from leaven.lab.tracing.opened import Opened
from leaven.pictures.batch import Rows

NORMALIZE = T.Normalize(mean=[0.5, 0.25, 0.1], std=[0.2, 0.3, 0.4])
RECIPES = {
    "classification": ('label="kind"', "classes", "kind 1"),
    "multilabel": ('labels="tags"', "classes", "dark, even"),
    "regression": ('target=["level", "half"]', "outputs", "level 4\nhalf 1.5"),
}
ROW = {"kind": "kind 1", "tags": "dark;even", "level": "4", "half": "1.5"}
OTHER = {"kind": "kind 2", "tags": "", "level": "7", "half": "2.5"}


def seen(tmp_path: Path, recipe: str) -> tuple[Rows, Rows]:
    file = tmp_path / "recipe.leaven"
    file.write_text(recipe)
    with leaven.open(file) as session:
        found = look(Opened("recipe", session._plan, session._program, session.data))
    stages, batch = found.rows
    assert found.to_json()["count"] >= len(batch.tiles)
    return stages, batch


@pytest.mark.parametrize("task", sorted(RECIPES))
def test_every_image_has_its_label(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ask, outputs, caption = RECIPES[task]
    lines = [f"file,{','.join(ROW)}"]
    for number in range(12):
        Image.new("RGB", (16, 12), (200, 0, 0) if number % 2 else (0, 200, 0)).save(f"{number}.png")
        lines.append(f"{number}.png,{','.join((ROW if number % 2 else OTHER).values())}")
    Path("table.csv").write_text("\n".join(lines))
    text = f"""
    model conv(8) -> global_pool() -> linear({outputs})
    data  csv("table.csv", image="file", {ask}) {{
        train center_crop(12) -> random_horizontal_flip() -> to_tensor() -> normalize(
            mean=[0.5, 0.5, 0.5], std=[0.25, 0.25, 0.25])
        eval center_crop(12)
    }}
    train batch=8, epochs=1
    """
    stages, batch = seen(tmp_path, text)
    assert len(batch.tiles) == 8
    assert {tile.caption for tile in batch.tiles if tile.pixels[0, 0, 0] == 200} == {caption}
    assert [tile.caption.split("(")[0].split("\n")[0] for tile in stages.tiles] == [
        "as loaded",
        "center_crop",
        "random_horizontal_flip",
        "to_tensor",
        "normalize",
    ]
    assert all(np.array_equal(tile.pixels, stages.tiles[1].pixels) for tile in stages.tiles[2:])


def test_the_sample_is_the_first_of_the_batch(tmp_path: Path) -> None:
    stages, batch = seen(
        tmp_path,
        "model conv(8) -> global_pool() -> linear(classes)\n"
        "data digits() { train random_crop(8, padding=3) -> random_rotation(30) }\ntrain epochs=1, batch=64\n",
    )
    assert np.array_equal(stages.tiles[-1].pixels, batch.tiles[0].pixels)
    assert len(batch.tiles) == MOST
    assert batch.title == "first batch: train, epoch 1, 32 of 64 images"
    names = [tile.caption.partition("\n")[0] for tile in stages.tiles]
    assert names == ["as loaded", "random_crop", "random_rotation", "to_tensor()"]


def test_a_stream_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "class Stream(torch.utils.data.IterableDataset):\n"
        "    classes = ['a', 'b']\n"
        "    def __iter__(self):\n"
        "        for number in range(40):\n"
        "            yield torch.full((1, 8, 8), number / 40), number % 2\n"
    )
    stages, batch = seen(
        tmp_path,
        'import "mine.py" as mine\nmodel conv(8) -> global_pool() -> linear(classes)\n'
        "data mine.Stream() { train random_erasing(p=1.0) }\ntrain epochs=1, batch=8\n",
    )
    assert {tile.caption for tile in batch.tiles} == {"a", "b"}
    assert np.array_equal(stages.tiles[-1].pixels, batch.tiles[0].pixels)


def test_the_session_draws_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.leaven").write_text("model conv(8) -> global_pool() -> linear(classes)\ndata digits()\ntrain epochs=1\n")
    with leaven.open("r.leaven") as session:
        assert session.look() == Path("r_look.png")
        assert session.look("val.svg", split="val") == Path("val.svg")
    assert Path("val.svg").read_text(encoding="utf-8").startswith("<?xml")


class TestPixels:
    IMAGE = torch.arange(3 * 4 * 5, dtype=torch.uint8).reshape(3, 4, 5)

    def test_normalisation_is_undone(self) -> None:
        values = T.ToDtype(torch.float32, scale=True)(self.IMAGE)
        found = pixels(NORMALIZE(values), [NORMALIZE])
        assert np.array_equal(found, self.IMAGE.permute(1, 2, 0).numpy())

    @pytest.mark.parametrize(
        "stage",
        [
            IMAGE,
            IMAGE.permute(1, 2, 0).numpy(),
            IMAGE.permute(1, 2, 0).numpy() / 255,
            IMAGE / 255,
            torch.cat([IMAGE, IMAGE]),
            Image.fromarray(IMAGE.permute(1, 2, 0).numpy()),
        ],
    )
    def test_an_image_of_any_kind(self, stage: object) -> None:
        assert np.array_equal(pixels(stage, []), self.IMAGE.permute(1, 2, 0).numpy())

    def test_values_of_another_range_are_stretched(self) -> None:
        found = pixels(torch.tensor([[-3.0, 0.0], [1.0, 7.0]]), [])
        assert found is not None
        assert found.tolist() == [[0, 76], [102, 255]]

    @pytest.mark.parametrize("stage", [3, {"a": 1}, torch.zeros(7), np.zeros((2, 2, 2, 2))])
    def test_what_is_no_image_has_none(self, stage: object) -> None:
        assert pixels(stage, []) is None
