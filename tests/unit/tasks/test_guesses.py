"""A run says so when its model is no better than a guess, with the numbers; and says nothing otherwise."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests import at_work
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassF1Score,
    MulticlassJaccardIndex,
    MultilabelF1Score,
)
from torchmetrics.regression import MeanAbsoluteError

import leaven
from leaven.bundle.page import page
from leaven.tasks import detection, multilabel, regression, segmentation
from leaven.tasks.guesses import (
    Judged,
    LabelFrequencies,
    MostFrequentClass,
    MostFrequentPixel,
    NoObjects,
    TrainingMean,
)
from leaven.tasks.regression.target import Quantities
from leaven.tasks.segmentation.target import MaskClasses

HAM = MostFrequentClass(("ham", "spam\x1b[2J"))
TINY = "model conv(4) -> global_pool() -> linear(outputs)\noptimizer sgd(lr={lr})\ntrain epochs={epochs}, batch=16\n"


def judged(predicted: list[int], actual: list[int], metric: str = "accuracy") -> tuple[str, ...]:
    metrics = {
        "accuracy": MulticlassAccuracy(num_classes=2, average="micro"),
        "f1": MulticlassF1Score(num_classes=2, average="macro"),
    }
    outputs, targets = torch.eye(2)[predicted], torch.tensor(actual)
    found = Judged(HAM, {metric: metrics[metric]}, f"val.{metric}", "val")
    found.scores = {metric: float(metrics[metric](outputs, targets))}
    for half in range(2):
        found.add(outputs[half::2], targets[half::2])
    return found.caveats()


class TestClasses:
    def test_one_class_for_all(self) -> None:
        assert judged([0] * 8, [0] * 7 + [1]) == ("val split: all 8 predictions are `ham`; 7 of the 8 samples are",)

    def test_names_are_printed_without_their_escapes(self) -> None:
        (word,) = judged([1] * 4, [0, 0, 0, 1])
        assert word == "val split: all 4 predictions are `spam\\x1b[2J`; 1 of the 4 samples are"

    def test_as_many_right_as_the_most_frequent_class_has(self) -> None:
        (word,) = judged([0] * 6 + [1, 1], [0] * 7 + [1])
        assert word == (
            "val split: no better than always predicting `ham`: accuracy 0.8750 against 0.8750"
            " (7 of 8 samples are `ham`)"
        )

    def test_by_the_metric_of_the_recipe(self) -> None:
        """A classifier that finds the rare class may be worse by accuracy."""
        predicted, actual = [0] * 12 + [1] * 8, [0] * 18 + [1] * 2
        assert judged(predicted, actual)
        assert judged([0] * 13 + [1] * 7, [0] * 15 + [1] * 5, "f1") == ()

    def test_one_more_that_is_right_is_better(self) -> None:
        assert judged([0] * 7 + [1], [0] * 7 + [1]) == ()

    def test_a_split_of_one_class_has_no_caveat(self) -> None:
        assert judged([0] * 5, [0] * 5) == ()


def test_numbers_are_compared_with_the_mean_of_training() -> None:
    def in_units(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (outputs * 2 + 10).squeeze(1), (targets * 2 + 10).squeeze(1)

    metric = MeanAbsoluteError()
    targets = torch.tensor([[-1.0], [1.0], [0.5], [-0.5]])
    for outputs, is_bad in ((targets * 0.5, False), (-targets, True)):
        found = Judged(TrainingMean(in_units), {"mae": metric}, "val.mae", "val")
        found.scores = {"mae": float(metric(*in_units(outputs, targets)))}
        found.add(outputs, targets)
        told = "val split: no better than always predicting the mean of training: mae 3.0000 against 1.5000"
        assert found.caveats() == ((told,) if is_bad else ())


def test_labels_are_compared_with_how_often_they_occur() -> None:
    metric = MultilabelF1Score(num_labels=2)
    targets = torch.tensor([[1, 0], [1, 1], [1, 0], [0, 0]])
    for outputs, told in (
        (torch.tensor([[3.0, -3.0]] * 4), "val split: all 4 predictions are the same: `a`"),
        ((targets * 2.0 - 1) * torch.tensor([[-1.0, -1.0]]), "val split: no better than predicting the same labels"),
        (targets * 2.0 - 1, ""),
    ):
        found = Judged(LabelFrequencies(("a", "b")), {"f1": metric}, "val.f1", "val")
        found.scores = {"f1": float(metric(outputs.sigmoid(), targets))}
        found.add(outputs, targets)
        assert " ".join(found.caveats()).startswith(told)
        assert bool(found.caveats()) == bool(told)


@pytest.fixture
def mails(tmp_path: Path) -> Path:
    """A table of noise with labels, 7 of 8 of one class."""
    chance = Random(0)
    (tmp_path / "mails").mkdir()
    rows = ["file,label,age"]
    for number in range(80):
        Image.frombytes("RGB", (16, 16), chance.randbytes(768)).save(tmp_path / f"mails/{number}.png")
        rows.append(f"mails/{number}.png,{'ham' if number % 8 else 'spam'},{20 + number % 13}")
    (tmp_path / "mails.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def masks(predicted: list[int], actual: list[int]) -> tuple[str, ...]:
    """What is said of a model that predicts these classes of pixels; -1 is a pixel without a class."""
    metric = MulticlassJaccardIndex(num_classes=2, ignore_index=-1)
    said, there = torch.tensor(predicted)[None, None], torch.tensor(actual)[None, None]
    found = Judged(
        MostFrequentPixel(("ground", "road"), lambda outputs, targets: (outputs, targets)), {}, "val.iou", "val"
    )
    found.metrics = {"iou": metric}
    found.scores = {"iou": float(metric(said, there))}
    found.add(said, there)
    found.add(said, there)
    return found.caveats()


class TestPixels:
    def test_one_class_for_all(self) -> None:
        told = "val split: all pixels are predicted to be `ground`; 75.0 % of them are"
        assert masks([0, 0, 0, 0, 1], [0, 0, 0, 1, -1]) == (told,)

    def test_no_better_than_the_most_frequent_class(self) -> None:
        assert masks([1, 0, 0, 0], [0, 0, 0, 1]) == (
            "val split: no better than always predicting `ground`: iou 0.2500 against 0.3750"
            " (75.0 % of the pixels are `ground`)",
        )

    def test_a_model_that_learned_something(self) -> None:
        assert masks([0, 0, 0, 1], [0, 0, 0, 1]) == ()
        assert masks([0, 0], [0, 0]) == ()


def objects(*boxes: list[float]) -> dict[str, torch.Tensor]:
    none = torch.zeros(0, 4)
    return {
        "boxes": torch.tensor(boxes).reshape(-1, 4),
        "labels": torch.ones(len(boxes), dtype=torch.int64),
        "scores": torch.ones(len(boxes)),
        "crowd_boxes": none,
        "crowd_labels": torch.zeros(0, dtype=torch.int64),
    }


def test_detectors_that_find_nothing() -> None:
    pytest.importorskip("pycocotools")
    from leaven.tasks.detection.metrics import MeanAP, compared

    there = [objects([0, 0, 10, 10]), objects([0, 0, 10, 10], [20, 20, 30, 30])]
    for found, told in (
        ([objects(), objects()], "val split: no object is found in any of the 2 images, which have 3"),
        (
            [objects([50, 50, 60, 60]), objects()],
            "val split: none of the 3 objects is found; whatever is found is elsewhere, or of another category",
        ),
        ([objects([0, 0, 10, 10]), objects()], ""),
    ):
        metric = MeanAP()
        metric.update(*compared(found, there))
        judged = Judged(NoObjects(), {"map": metric}, "val.map", "val")
        judged.scores = {name: float(value) for name, value in metric.compute().items()}
        judged.add(found, there)
        assert " ".join(judged.caveats()) == told


def test_evaluations_have_the_caveat_in_every_form() -> None:
    target = MaskClasses(("ground", "road"))
    found: Any = segmentation.Evaluation(target, np.array([[9, 0], [3, 0]]), ())
    assert found.caveat == "all pixels are predicted to be `ground`; 75.0 % of them are"
    assert found.caveat in str(found)
    assert found.to_json()["caveat"] == found.caveat
    assert segmentation.Evaluation(target, np.array([[5, 4], [3, 0]]), ()).caveat.startswith("no better than always")
    assert segmentation.Evaluation(target, np.array([[9, 0], [0, 3]]), ()).caveat == ""
    each = {"cat": {"ap": 0.0, "ap_50": 0.0, "count": 4}}
    found = detection.Evaluation(("cat",), {"map": 0.0, "map_50": 0.0}, each, ())
    assert found.caveat == "no object is found in any of the 0 images, which have 4"
    assert found.to_json()["caveat"] == found.caveat
    assert detection.Evaluation(("cat",), {"map": 0.1, "map_50": 0.2}, each, ()).caveat == ""
    actual = np.array([[1.0], [2.0], [6.0]])
    numbers = Quantities(("age",), (3.0,), (2.0,))
    found = regression.Evaluation(numbers, ("a", "b", "c"), actual, np.full((3, 1), 3.0))
    assert found.caveat == "all 3 predictions are the same: 3"
    assert found.to_json()["caveat"] == found.caveat
    assert regression.Evaluation(numbers, ("a", "b", "c"), actual, -actual).caveat.startswith("no better than always")
    assert regression.Evaluation(numbers, ("a", "b", "c"), actual, actual + 0.1).caveat == ""
    is_so = np.array([[True, False], [False, True]])
    found = multilabel.Evaluation(("a", "b"), is_so, np.array([[0.9, 0.1], [0.8, 0.1]]))
    assert found.caveat == "all 2 predictions are the same: `a`"
    assert found.caveat in page("t", "", found, lambda at: None, {})


def test_a_run_reports_that_it_did_not_work(mails: Path) -> None:
    data = 'data csv("mails.csv", image="file", label="label") { eval resize([16, 16]) }\n'
    file = at_work.program(mails, TINY.format(lr="1e-9", epochs=2) + data)
    told = "test split: all 8 predictions are `ham`; 7 of the 8 samples are"
    assert f"\n{told}\n" in at_work.run(file).said
    (folder,) = (mails / "runs/recipe").iterdir()
    assert json.loads((folder / "lock.json").read_text())["caveats"] == [told]
    bundle = leaven.load(folder)
    assert bundle.manifest.caveats == (told,)
    assert "all 80 predictions are `ham`; 70 of the 80 samples are" in str(
        bundle.evaluate(str(mails / "mails.csv"), image="file")
    )


def test_without_a_test_split_the_best_epoch_is_judged_also_when_it_is_resumed(mails: Path) -> None:
    data = 'data csv("mails.csv", image="file", target="age") { eval resize([16, 16]); split train=80%, val=20% }\n'
    file = at_work.program(mails, TINY.format(lr="1e-9", epochs=3) + data)
    at_work.kill(file, at=at_work.Moment(file="last.ckpt", time=2))
    (folder,) = (mails / "runs/recipe").iterdir()
    said = at_work.run(file, "--resume", str(folder)).said
    assert re.search(r"\nval split: no better than always predicting the mean of training: mae \S+ against \S+\n", said)


def test_a_run_that_worked_has_no_caveat(tmp_path: Path) -> None:
    data = "data digits() { split train=320 samples, val=64 samples, test=64 samples }\n"
    model = "model flatten() -> linear(outputs)\noptimizer adamw(lr=0.05)\ntrain epochs=2\n"
    said = at_work.run(at_work.program(tmp_path, model + data)).said
    assert "test" in said
    assert "split:" not in said
    assert "predictions are" not in said
