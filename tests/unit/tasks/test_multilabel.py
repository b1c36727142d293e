"""Multi-label classification: several labels per image, each with a probability of its own."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from torch import nn
from torchmetrics.classification import MultilabelAccuracy, MultilabelAveragePrecision, MultilabelF1Score
from torchvision.transforms import v2 as T

from leaven import bundle
from leaven.bundle import Bundle
from leaven.cli import bundle as commands
from leaven.components.conv import Conv
from leaven.components.global_pool import GlobalPool
from leaven.components.linear import Linear
from leaven.formats.target import BadTarget
from leaven.runtime.data.datasets import Dataset, image_folder, table
from leaven.runtime.data.splits import split
from leaven.runtime.data.torch_datasets import user_dataset
from leaven.runtime.failures import Failure
from leaven.tasks import multilabel as task
from leaven.tasks.multilabel.evaluation import average_precision

PARTS = [
    ("Conv", {"in_channels": 3, "channels": 3, "kernel": 1, "norm": False, "activation": None}),
    ("GlobalPool", {}),
    ("Linear", {"in_channels": 3, "features": 3}),
]
STEPS = T.Compose([T.Resize([8, 8]), T.ToImage(), T.ToDtype(torch.float32, scale=True)])
COLOURS = ("blue", "green", "red")  # in the order of their names
LIT = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0), "black": (0, 0, 0)}


def paint(file: Path, colour: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (10, 12), LIT[colour]).save(file)
    return file


@pytest.fixture
def colours(tmp_path: Path) -> Bundle:
    """A bundle of a model that says which of three lights are on."""
    model = nn.Sequential(Conv(3, 3, kernel=1, norm=False, activation=None), GlobalPool(), Linear(3, 3))
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
        for output, channel in enumerate((2, 1, 0)):
            model[0].conv.weight[output, channel] = 1  # type: ignore[union-attr, index]
            model[2].weight[output, output] = 8  # type: ignore[operator, index]
        model[2].bias.fill_(-4)  # type: ignore[operator]
    target = task.LabelSet(COLOURS, ("lights",))
    file = bundle.save(
        tmp_path / "lights.bundle", model, built_by=bundle.Components(PARTS), preprocess=STEPS, target=target
    )
    return bundle.load(file)


@pytest.fixture
def lights(tmp_path: Path) -> Path:
    """Images with the lights that are on; the last row is wrong."""
    rows = [("red", "red"), ("yellow", "green; red"), ("black", ""), ("blue", "blue"), ("red", "red;blue")]
    for number, (colour, _) in enumerate(rows):
        paint(tmp_path / f"{number}.png", colour)
    with (tmp_path / "lights.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("file", "lights"), *((f"{n}.png", given) for n, (_, given) in enumerate(rows))])
    return tmp_path / "lights.csv"


class TestReading:
    @pytest.mark.parametrize(
        ("given", "columns", "names"),
        [
            (["b;a", "", "b"], "tags", ("a", "b")),
            ([" b ; a;;b ", "", "b;"], "tags", ("a", "b")),
            ([["b", "a"], [], ["b"]], "tags", ("a", "b")),
            ([("1", "1"), ("0", "0"), ("0", "1")], ["a", "b"], ("a", "b")),
            ([(1, 1), (0, False), (0.0, True)], ["a", "b"], ("a", "b")),
            ([("true", "True"), ("FALSE", "0"), ("false", " 1 ")], ["a", "b"], ("a", "b")),
            ([torch.tensor([1, 1]), torch.tensor([0, 0]), np.array([0.0, 1.0])], "tags", ("0", "1")),
            ([[7, 10], [], [10]], "tags", ("7", "10")),
        ],
    )
    def test_labels_in_any_form(self, given: list[object], columns: object, names: tuple[str, ...]) -> None:
        target, values = task.Labels(columns).read(given)  # type: ignore[arg-type]
        assert target.names == names
        assert values == [(1.0, 1.0), (0.0, 0.0), (0.0, 1.0)]
        assert [target.plain(value) for value in values] == [list(names), [], [names[1]]]
        assert [target.value(target.plain(value)) for value in values] == values

    def test_another_separator(self) -> None:
        target, values = task.Labels("tags", separator="|").read(["a;x|b", "b"])
        assert target.names == ("a;x", "b")
        assert values == [(1.0, 1.0), (0.0, 1.0)]
        assert task.read_target(target.to_json()) == target

    @pytest.mark.parametrize(
        ("given", "columns", "fact", "at"),
        [
            (["a", None], "tags", "has no labels", 1),
            (["a", 3], "tags", "has `3` in place of a list", 1),
            ([["a"], [1.5]], "tags", "has `1.5`, which is not the name", 1),
            ([["a"], [""]], "tags", "has an empty label", 1),
            (["", ""], "tags", "has no labels at all", None),
            (["1", "0"], "tags", "has only 0 and 1", None),
            ([(1, 0), (2, 0)], ["a", "b"], "has `2` as `a`, which is neither 0 nor 1", 1),
            ([(1, 0), (1, "")], ["a", "b"], "has no `b`", 1),
            ([(1, 0), (1, float("nan"))], ["a", "b"], "neither 0 nor 1", 1),
            ([(0, 0), (0, 0)], ["a", "b"], "has no labels at all", None),
        ],
    )
    def test_what_is_not_a_label(self, given: list[object], columns: object, fact: str, at: int | None) -> None:
        with pytest.raises(BadTarget) as caught:
            task.Labels(columns).read(given)  # type: ignore[arg-type]
        assert fact in caught.value.fact
        assert caught.value.at == at

    def test_a_label_that_the_model_does_not_know(self) -> None:
        with pytest.raises(BadTarget, match="has the label `rde`") as caught:
            task.LabelSet(COLOURS).value("rde;blue")
        assert caught.value.help == "did you mean `red`?"

    def test_a_folder_with_a_table_in_it(self, tmp_path: Path) -> None:
        for number in range(3):
            paint(tmp_path / "photos" / f"{number}.png", "red")
        (tmp_path / "photos" / "metadata.csv").write_text("file_name,tags\n0.png,a;b\n1.png,b\n2.png,\n")
        items = image_folder(tmp_path / "photos", target=task.Labels("tags"))
        assert items.values == [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]

    def test_a_data_set_of_the_users(self) -> None:
        items = user_dataset(Lights(), target=task.Labels())
        assert isinstance(items, Dataset)
        assert (items.target.names, items.values) == (COLOURS, None)
        assert [items.load(index)[1] for index in range(2)] == [(1.0, 0.0, 0.0), (0.0, 1.0, 1.0)]


class Lights(torch.utils.data.Dataset):  # type: ignore[type-arg]
    classes = COLOURS

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[torch.Tensor, object]:
        return torch.zeros(3, 4, 4), [["blue"], torch.tensor([0, 1, 1])][index]


class TestSplitting:
    def test_rare_labels_are_in_every_split(self) -> None:
        values = [(1.0, float(number % 10 == 0)) for number in range(200)]  # the second label is rare
        items = Dataset(task.LabelSet(("common", "rare")), values, 200, load=str, name=str)
        parts = split(items, train=80, val=10, test=10)
        assert [sum(values[at][1] for at in places) for places in (parts.train, parts.val, parts.test)] == [16, 2, 2]

    def test_a_label_that_is_never_trained_is_reported(self) -> None:
        target = task.LabelSet(("a", "b"))
        assert target.unseen([(1.0, 0.0)], [(1.0, 1.0)]) == "the label b"
        assert target.unseen([(1.0, 1.0)], [(1.0, 0.0)]) == ""


class TestBundles:
    def test_every_label_above_one_half(self, colours: Bundle, tmp_path: Path) -> None:
        answer = colours(paint(tmp_path / "a.png", "yellow"))
        assert set(answer.labels) == {"green", "red"}
        assert answer["red"] == pytest.approx(torch.tensor(4.0).sigmoid().item(), abs=1e-4)
        assert [name for name, _ in answer.above(0.001)][-1] == "blue"
        assert colours(paint(tmp_path / "b.png", "black")).labels == ()
        assert repr(colours(paint(tmp_path / "b.png", "black"))) == "<Prediction: no label>"

    def test_it_says_what_it_predicts(self, colours: Bundle) -> None:
        assert (colours.task, colours.classes) == ("multilabel", COLOURS)
        assert repr(colours) == "<Bundle lights.bundle: 3 labels>"
        assert "says which of 3 labels images have" in colours.card

    def test_scores_of_each_label(self, colours: Bundle, lights: Path) -> None:
        found = colours.evaluate(lights, image="file")
        assert found.count == 5
        assert found.per_label["blue"] == {
            "precision": 1.0,
            "recall": 0.5,
            "f1": pytest.approx(2 / 3),
            "average_precision": pytest.approx(0.5 + 0.5 * 2 / 5),
            "count": 2,
        }
        assert (found.scores["exact"], found.scores["accuracy"]) == (0.8, pytest.approx(14 / 15))
        assert str(found).splitlines()[6].split() == [
            "label",
            "precision",
            "recall",
            "f1",
            "avg",
            "precision",
            "images",
        ]

    def test_scores_are_those_of_torchmetrics(self) -> None:
        chance = torch.Generator().manual_seed(3)
        outputs, actual = torch.randn(40, 5, generator=chance), torch.rand(40, 5, generator=chance) < 0.4
        outputs[7] = outputs[9]  # equal scores
        tally = task.Tally(task.LabelSet(tuple("abcde")))
        tally.add(outputs, [tuple(row) for row in actual.float().tolist()], [""] * 40)
        scores = tally.result(()).scores
        shares = outputs.double().sigmoid()
        assert scores["average_precision"] == pytest.approx(MultilabelAveragePrecision(5)(shares, actual.int()).item())
        assert scores["f1"] == pytest.approx(MultilabelF1Score(5)(shares, actual.int()).item())
        assert scores["accuracy"] == pytest.approx(MultilabelAccuracy(5)(shares, actual.int()).item())

    def test_average_precision_of_a_perfect_and_of_a_useless_ranking(self) -> None:
        actual = np.array([True, True, False, False])
        assert average_precision(actual, np.array([0.9, 0.8, 0.2, 0.1])) == 1.0
        assert average_precision(actual, np.full(4, 0.5)) == 0.5

    @pytest.mark.parametrize("change", [{"names": []}, {"columns": []}, {"separator": ""}, {"separator": 3}])
    def test_a_target_that_was_changed_is_refused(self, change: dict[str, object]) -> None:
        with pytest.raises(ValueError, match="can't be read"):
            task.read_target({**task.LabelSet(COLOURS).to_json(), **change})


class TestCommands:
    def run(self, command: Callable[..., object], *words: str) -> str:
        result = CliRunner().invoke(command, list(words), catch_exceptions=False)  # type: ignore[arg-type]
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def test_predict(self, colours: Bundle, tmp_path: Path) -> None:
        files = [str(paint(tmp_path / f"{colour}.png", colour)) for colour in ("yellow", "black")]
        assert self.run(commands.predict, str(colours.path), files[0]).split() == [
            "green",
            "98.2",
            "%",
            "red",
            "98.2",
            "%",
        ]
        assert self.run(commands.predict, str(colours.path), files[1]).startswith("no label; the most likely are:\n")
        _, yellow, _ = self.run(commands.predict, str(colours.path), *files).splitlines()
        assert yellow.split()[1] == "green;red"
        (found,) = json.loads(self.run(commands.predict, str(colours.path), files[0], "--json"))
        assert [one["label"] for one in found["labels"]] == ["green", "red"]

    def test_predictions_can_be_evaluated_again(self, colours: Bundle, tmp_path: Path) -> None:
        """What `predict --csv` writes is a table of labels."""
        files = [str(paint(tmp_path / f"{colour}.png", colour)) for colour in LIT]
        self.run(commands.predict, str(colours.path), *files, "--csv", str(tmp_path / "found.csv"))
        found = colours.evaluate(tmp_path / "found.csv", image="file", label="labels", root="/")
        assert found.scores["exact"] == 1.0

    def test_a_table_with_an_unknown_label_is_refused(self, colours: Bundle, lights: Path) -> None:
        lights.write_text(lights.read_text().replace("blue", "purple"))
        with pytest.raises(Failure, match=r"line 5 of `.*lights\.csv` has the label `purple`"):
            colours.evaluate(lights, image="file")

    def test_other_columns(self, lights: Path) -> None:
        rows = ["file,red,blue", *(f"{number}.png,{number % 2},{number // 3}" for number in range(5))]
        (lights.parent / "bits.csv").write_text("\n".join(rows) + "\n")
        items = table(lights.parent / "bits.csv", image="file", target=task.Labels(["red", "blue"]))
        assert items.values == [(0.0, 0.0), (1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
