"""Image regression: numbers are read, standardised in training, and given back in their own units."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from tests import at_work
from torch import nn
from torchmetrics import R2Score
from torchvision.transforms import v2 as T

from leaven import bundle
from leaven.bundle import Bundle
from leaven.cli import bundle as commands
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.formats.target import BadTarget
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset, image_folder, table
from leaven.runtime.data.splits import split
from leaven.runtime.data.torch_datasets import user_dataset
from leaven.runtime.failures import Failure
from leaven.tasks import regression as task
from leaven.tasks.regression import code
from leaven.tasks.regression.prediction import digits

PARTS = [
    ("Conv", {"in_channels": 3, "channels": 1, "kernel": 1, "norm": False, "activation": None}),
    ("GlobalPool", {}),
    ("Linear", {"in_channels": 1, "features": 1}),
]
RECIPE = """
model conv(4) -> global_pool() -> linear(outputs)
data  csv("levels.csv", image="file", target="level") { eval resize([8, 8]) }
train epochs=1, batch=8
"""
STEPS = T.Compose([T.Resize([8, 8]), T.ToImage(), T.ToDtype(torch.float32, scale=True)])


def grey(file: Path, level: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (10, 12), (level, level, level)).save(file)
    return file


@pytest.fixture
def brightness(tmp_path: Path) -> Path:
    """Twenty grey images and a table of how bright they are."""
    rows = ["file,level,half"]
    for number in range(20):
        grey(tmp_path / "images" / f"{number}.png", number * 10)
        rows.append(f"images/{number}.png,{number * 10},{number * 5}")
    (tmp_path / "levels.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "levels.csv"


def trained_scores(folder: Path, offset: int) -> dict[str, float]:
    """The test scores of a model that was trained for one epoch on the numbers from `offset` on."""
    rows = ["file,level"]
    for number in range(60):
        grey(folder / f"{number}.png", number * 4)
        rows.append(f"{number}.png,{offset + 100 * number}")
    (folder / "levels.csv").write_text("\n".join(rows) + "\n")
    at_work.run(at_work.program(folder, RECIPE))
    (file,) = folder.glob("runs/*/*/model.bundle")
    return dict(bundle.load(file).scores)


def level_model(scale: float = 1.0) -> nn.Module:
    """A model whose output is the brightness of an image, from 0 to 1."""
    model = nn.Sequential(Conv(3, 1, kernel=1, norm=False, activation=None), GlobalPool(), Linear(1, 1))
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
        model[0].conv.weight.fill_(1 / 3)  # type: ignore[union-attr, operator]
        model[2].weight.fill_(scale)  # type: ignore[operator]
    return model


@pytest.fixture
def levels(tmp_path: Path) -> Bundle:
    """A bundle of that model, for levels from 0 to 255: it has learned them as numbers from 0 to 1."""
    target = task.Quantities(("level",), mean=(0.0,), std=(255.0,))
    file = bundle.save(
        tmp_path / "levels.bundle", level_model(), built_by=bundle.Components(PARTS), preprocess=STEPS, target=target
    )
    return bundle.load(file)


class TestReading:
    def test_columns_are_the_targets(self, brightness: Path) -> None:
        items = table(brightness, image="file", target=task.Numbers(("level", "half")))
        assert items.target.names == ("level", "half")
        assert items.values is not None
        assert items.values[3] == (30.0, 15.0)

    def test_a_folder_with_a_table_in_it(self, brightness: Path) -> None:
        folder = brightness.parent / "photos"
        for split_name, count in (("train", 4), ("val", 2)):
            for number in range(count):
                grey(folder / split_name / f"{number}.png", number)
            rows = [f"{number}.png,{number}" for number in range(count)]
            (folder / split_name / "metadata.csv").write_text("\n".join(["file_name,level", *rows]))
        items = image_folder(folder, target=task.Numbers(("level",)))
        assert items.predefined == {"train": range(4), "val": range(4, 6)}
        assert Path(items.name(4)) == folder / "val" / "0.png"

    @pytest.mark.parametrize(
        ("cell", "fact", "help"),
        [
            ("tall", "line 4 of `t.csv` has `tall` as `age`, which is not a number", ""),
            ("", "line 4 of `t.csv` has no `age`", "fill it in"),
            ('"41,2"', "has `41,2` as `age`, which is not a number", 'write `decimal=","`'),
            ('"1,200"', "has `1,200` as `age`, which is not a number", "say what the comma is"),
            ("nan", "has `nan` as `age`, which is not a finite number", ""),
        ],
    )
    def test_what_is_not_a_number(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str, fact: str, help: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        grey(Path("0.png"), 1)
        Path("t.csv").write_text(f"file,age\n0.png,1\n0.png,2\n0.png,{cell}\n")
        with pytest.raises(Failure) as caught:
            table("t.csv", image="file", target=task.Numbers(("age",)))
        assert fact in caught.value.headline
        assert help in caught.value.help

    def test_numbers_that_are_all_the_same_teach_nothing(self, tmp_path: Path) -> None:
        grey(tmp_path / "0.png", 1)
        (tmp_path / "t.csv").write_text("file,age\n0.png,7\n0.png,7\n")
        with pytest.raises(Failure, match="has only the number 7 as `age`"):
            table(tmp_path / "t.csv", image="file", target=task.Numbers(("age",)))

    def test_a_data_set_of_the_users(self) -> None:
        pairs = [(torch.zeros(3, 4, 4), torch.tensor([float(number), 2.0 * number])) for number in range(5)]
        items = user_dataset(Listed(pairs), target=task.Numbers())
        assert isinstance(items, Dataset)
        assert items.target.names == ("target_1", "target_2")
        assert items.values is not None
        assert items.values[4] == (4.0, 8.0)

    def test_a_data_set_of_the_users_may_name_the_numbers(self) -> None:
        pairs = [(torch.zeros(3, 4, 4), torch.tensor([float(number), 2.0 * number])) for number in range(5)]
        named = Listed(pairs)
        named.target_names = ["age", "height"]  # type: ignore[attr-defined]
        items = user_dataset(named, target=task.Numbers())
        assert items.target.names == ("age", "height")
        assert isinstance(items, Dataset)
        assert items.values is not None
        assert items.values[4] == (4.0, 8.0)
        named.target_names = ["age"]  # type: ignore[attr-defined]
        with pytest.raises(Failure, match="has 2 numbers, but there is 1 target: `age`"):
            user_dataset(named, target=task.Numbers())

    def test_a_stream_must_name_the_numbers_which_are_not_standardised(self) -> None:
        with pytest.raises(Failure, match="the target_names of Stream are not known"):
            user_dataset(Stream(), target=task.Numbers())
        stream = Stream()
        stream.target_names = ["age"]  # type: ignore[attr-defined]
        items = user_dataset(stream, target=task.Numbers())
        data = Data(items, split(items), train_transform=None, eval_transform=None, batch_size=4)
        assert sorted(next(iter(data.train.batches(0, shuffle=False)))[1].flatten().tolist()) == [0.0, 1.0, 2.0, 3.0]
        assert task.read_target(data.target.to_json()) == data.target


class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[tuple[torch.Tensor, float]]:
        return ((torch.zeros(3, 4, 4), float(number)) for number in range(40))


class Listed(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.pairs[index]


class TestTraining:
    def test_batches_are_standardised_by_the_training_split(self, brightness: Path) -> None:
        items = table(brightness, image="file", target=task.Numbers(("level",)))
        data = Data(
            items, split(items, train=60, val=20, test=20), train_transform=STEPS, eval_transform=STEPS, batch_size=4
        )
        values = torch.cat([labels for _, labels in data.train.batches(0)])
        assert values.shape == (12, 1)
        assert values.mean().item() == pytest.approx(0, abs=1e-5)
        assert values.std(correction=0).item() == pytest.approx(1, abs=1e-5)
        trained = [items.values[place][0] for place in data.split.train.tolist()]  # type: ignore[index]
        assert isinstance(data.target, task.Quantities)
        assert data.target.mean == pytest.approx((np.mean(trained),))
        assert [data.target.plain(tuple(value.tolist()))["level"] for _, v in data.val.batches(0) for value in v] == [
            pytest.approx(items.values[place][0])
            for place in data.split.val.tolist()  # type: ignore[index]
        ]

    def test_every_split_has_the_whole_range(self) -> None:
        target = task.Quantities(("age",))
        values = [(float(number),) for number in range(200)]
        items = Dataset(target, values, 200, load=str, name=str)
        parts = split(items, train=80, val=10, test=10)
        for places in (parts.val, parts.test):
            assert sorted(place // 20 for place in places.tolist()) == sorted([*range(10)] * 2)

    def test_a_target_that_is_constant_in_training_is_refused(self) -> None:
        target = task.Quantities(("age",))
        with pytest.raises(BadTarget, match="the same `age` in every training sample"):
            target.fitted([(1.0,), (1.0,), (2.0,)], [0, 1])

    def test_scores_do_not_depend_on_the_zero_of_the_numbers(self, tmp_path: Path) -> None:
        near = trained_scores(tmp_path / "near", 0)
        assert near.keys() == {"test.mae", "test.rmse", "test.r2"}
        assert near["test.mae"] > 100
        for offset in (5_400_000, 1_700_000_000):
            assert trained_scores(tmp_path / str(offset), offset) == pytest.approx(near, rel=1e-3, abs=1e-3)

    def test_scores_of_huge_numbers_are_finite(self) -> None:
        target = task.Quantities(("mass",), mean=(1e30,), std=(1e29,))
        r2 = R2Score().set_dtype(torch.float64)
        r2.update(*code.measured(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [1.0]]), target))
        assert r2.compute().item() == pytest.approx(1.0)


class TestBundles:
    def test_predictions_are_in_their_own_units(self, levels: Bundle, tmp_path: Path) -> None:
        answer = levels(grey(tmp_path / "a.png", 100))
        assert answer["level"] == pytest.approx(100, abs=0.5)
        assert answer.value == answer.values["level"]
        assert repr(answer).startswith("<Prediction: level 100")

    @pytest.mark.parametrize(
        ("number", "spread", "text"),
        [
            (51.25, 20.0, "51.25"),
            (0.0, 20.0, "0"),
            (5_400_123.456, 500.0, "5400123.46"),
            (1_700_000_123.0, 500.0, "1700000123"),
            (1_700_000_123.0, 50_000.0, "1700000123"),
            (1.75e9, 1e9, "1.75e+09"),
            (-5_400_123.456, 500.0, "-5400123.46"),
            (float("nan"), 1.0, "nan"),
        ],
    )
    def test_numbers_have_as_many_digits_as_tell_them_apart(self, number: float, spread: float, text: str) -> None:
        assert digits(number, spread) == text

    def test_it_says_what_it_predicts(self, levels: Bundle) -> None:
        assert (levels.task, levels.classes) == ("regression", ("level",))
        assert repr(levels) == "<Bundle levels.bundle: level>"
        assert "predicts `level` of images" in levels.card
        assert 'model("photo.jpg")["level"]' in levels.card

    def test_errors_and_the_worst_images(self, levels: Bundle, brightness: Path) -> None:
        rows = brightness.read_text().splitlines()
        brightness.write_text("\n".join([*rows[:-1], "images/19.png,100,0"]) + "\n")
        found = levels.evaluate(brightness, image="file")
        assert found.count == 20
        assert found.scores["mae"] == pytest.approx(90 / 20, abs=0.5)
        assert found.scores["rmse"] == pytest.approx(90 / 20**0.5, abs=0.5)
        file, actual, predicted = found.worst(1)[0]
        assert file.endswith("19.png")
        assert (actual["level"], predicted["level"]) == (pytest.approx(100), pytest.approx(190, abs=0.5))
        lines = str(found).splitlines()
        assert lines[0] == "20 images"
        assert lines[6].split() == ["file", "actual", "predicted"]
        assert lines[7].split()[1:] == ["100", "190"]

    def test_r2_of_a_perfect_and_of_a_useless_model(self) -> None:
        target = task.Quantities(("a", "b"), (0.0, 0.0), (1.0, 1.0))
        tally = task.Tally(target)
        actual = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
        tally.add(torch.tensor([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]]), actual, ["x", "y", "z"])
        scores = tally.result(()).scores
        assert (scores["a.r2"], scores["b.r2"]) == (1.0, 0.0)
        assert scores["b.mae"] == pytest.approx(2 / 3)

    def test_exported_it_has_the_same_units(self, levels: Bundle, tmp_path: Path) -> None:
        file = levels.export("torch_export", tmp_path / "levels.pt2")
        exported = torch.export.load(file).module()
        image = levels.prepare(grey(tmp_path / "a.png", 100))
        assert exported(image[None]).item() == pytest.approx(100, abs=0.5)

    @pytest.mark.parametrize(
        "change",
        [
            {"mean": []},
            {"std": []},
            {"std": [0.0]},
            {"std": ["x"]},
            {"mean": [float("nan")]},
            {"names": []},
            {"names": ["a", "b"]},
        ],
    )
    def test_a_target_that_was_changed_is_refused(self, levels: Bundle, change: dict[str, object]) -> None:
        with pytest.raises(ValueError, match=r"can't be read|could not convert"):
            task.read_target({**levels.target.to_json(), **change})


class TestCommands:
    def run(self, command: Callable[..., object], *words: str) -> str:
        result = CliRunner().invoke(command, list(words), catch_exceptions=False)  # type: ignore[arg-type]
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def test_predict(self, levels: Bundle, tmp_path: Path) -> None:
        files = [str(grey(tmp_path / f"{level}.png", level)) for level in (0, 51)]
        place = str(levels.path)
        assert self.run(commands.predict, place, files[1]) == "level  51\n"
        assert [line.split()[1] for line in self.run(commands.predict, place, *files).splitlines()] == [
            "level",
            "0",
            "51",
        ]
        (found,) = json.loads(self.run(commands.predict, place, files[1], "--json"))
        assert found["values"] == {"level": pytest.approx(51)}

    def test_evaluate(self, levels: Bundle, brightness: Path) -> None:
        words = (str(levels.path), "--data", str(brightness), "--image", "file")
        found = json.loads(self.run(commands.evaluate, *words, "--json"))
        assert found["scores"]["r2"] == pytest.approx(1, abs=1e-3)
        other = self.run(commands.evaluate, *words, "--label", "half")
        assert "mae   47.5" in other
