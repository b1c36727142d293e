"""How well a detector does: average precision, also of each category, and in which images it is wrong."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.ops import box_iou

from leaven.pictures.bars import draw_bars
from leaven.pictures.objects import Mark, draw_objects
from leaven.tasks import protocol
from leaven.tasks.detection.metrics import SCORES, MeanAP, compared
from leaven.tasks.detection.parts import part_of
from leaven.tasks.detection.prediction import OVERLAP, Prediction, mark, predictions
from leaven.tasks.detection.samples import FIRST, counted, tensors_of
from leaven.tasks.detection.target import Categories, Objects
from leaven.tasks.guesses import nothing_found, nothing_right
from leaven.tasks.protocol import Case, Plot, Table
from leaven.tasks.reports import score_rows, table_lines


@dataclass(frozen=True)
class Sample:
    """An image that was measured: what was found, what is there, and how many objects are missed or wrongly found."""

    file: str
    found: Prediction
    actual: Objects  # in pixels
    missed: int
    wrong: int
    confidence: float  # in the most certain object that is wrongly found; NaN where there is none
    names: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return not self.missed and not self.wrong

    @property
    def note(self) -> str:
        counts = ((self.missed, "missed"), (self.wrong, "wrongly found"))
        return ", ".join(f"{count} {what}" for count, what in counts if count)

    def drawn(self, image: Image.Image) -> Image.Image:
        """The image with what was found, and with thin boxes around what is there."""
        there = [Mark(one.box, "", one.category) for one in self.actual.each]
        return draw_objects(image, [*there, *(mark(one) for one in reversed(list(self.found)))])

    def row(self) -> dict[str, str]:
        there = Counter(self.names[one.category] for one in self.actual.each if not one.is_crowd)
        return {"file": self.file, "actual": counted(there), "predicted": counted(self.found.counts)}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(protocol.Evaluation):
    """The results of a detector; `per_category` has the average precision of each category that occurred."""

    categories: tuple[str, ...]
    scores: dict[str, float]
    per_category: dict[str, dict[str, float]]
    samples: tuple[Sample, ...]

    @property
    def count(self) -> int:
        return len(self.samples)

    @property
    def caveat(self) -> str:
        """A line about a model that finds no object, or none that is there; else empty."""
        objects = sum(int(one["count"]) for one in self.per_category.values())
        if not objects or any(self.scores.values()):
            return ""
        is_empty = not any(len(sample.found) for sample in self.samples)
        return nothing_found(self.count, objects) if is_empty else nothing_right(objects)

    def tables(self) -> list[Table]:
        """Of many categories, those that are found worst come first."""
        rows = score_rows(self.per_category, ("ap", "ap_50"), "ap")
        return [Table("Categories", ("category", "AP", "AP@50", "objects"), rows)]

    def plots(self) -> list[Plot]:
        bars = {name: (one["ap"], one["ap_50"]) for name, one in self.per_category.items()}
        return [Plot("categories", "Average precision", lambda: draw_bars(bars, ("AP", "AP@50")))]

    def wrong(self) -> list[dict[str, str]]:
        worst = (self.samples[at] for at in self.ranked())
        return [{**one.row(), "missed": str(one.missed), "wrong": str(one.wrong)} for one in worst if not one.is_right]

    def ranked(self) -> list[int]:
        """By how many objects are missed or wrongly found."""

        def badness(at: int) -> tuple[bool, int]:
            sample = self.samples[at]
            return sample.is_right, -(sample.missed + sample.wrong)

        return sorted(range(len(self.samples)), key=badness)

    def case(self, at: int) -> Case:
        sample = self.samples[at]
        row = sample.row()
        return Case(at, sample.file, row["actual"], row["predicted"], sample.note, sample.is_right, sample.drawn)

    def columns(self) -> dict[str, Any]:
        counts = {"missed": [one.missed for one in self.samples], "wrong": [one.wrong for one in self.samples]}
        confidence = np.array([one.confidence for one in self.samples])
        return {
            **super().columns(),
            "confidence": confidence,
            **{name: np.array(each) for name, each in counts.items()},
        }

    def details(self) -> dict[str, Any]:
        return {"categories": list(self.categories), "per_category": self.per_category, "wrong": self.wrong()}

    def lines_below(self) -> list[str]:
        return table_lines(self.tables()[0], "category", "categories")


class Tally:
    """Collects what was found and what is there."""

    def __init__(self, target: Categories) -> None:
        self.target = target
        self.samples: list[Sample] = []
        self.counts: Counter[int] = Counter()
        self.part = part_of(target)
        kinds: list[type[MeanAP]] = [*self.part.metrics, MeanAP]
        self.metrics = [metric(extended_summary=True) for metric in kinds]

    def add(self, outputs: Sequence[Mapping[str, Any]], values: Sequence[Objects], names: Sequence[str]) -> None:
        found = predictions(outputs, self.target)
        actual = [_in_pixels(value, output["size"]) for value, output in zip(values, outputs, strict=True)]
        pairs = zip(values, outputs, strict=True)
        targets = [tensors_of(value, output["size"], self.part) for value, output in pairs]
        pair = compared(outputs, targets, self.part)
        for metric in self.metrics:
            metric.update(*pair)
        for name, prediction, there in zip(names, found, actual, strict=True):
            self.counts.update(one.category for one in there.each if not one.is_crowd)
            self.samples.append(_sample(name, prediction, there, self.target.names))

    def result(self, skipped: tuple[str, ...]) -> Evaluation:
        measured = [self._measured(metric) for metric in self.metrics]
        scores = {name: score for scores, _ in measured for name, score in scores.items()}
        return Evaluation(self.target.names, scores, measured[0][1], tuple(self.samples), skipped=skipped)

    def _measured(self, metric: MeanAP) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
        """The scores, and those of each category that occurred."""
        results: dict[str, Any] = super(MeanAP, metric).compute()
        scores = {f"{metric.prefix}{name}": max(0.0, float(results[name])) for name in SCORES}
        per_category: dict[str, dict[str, float]] = {}
        if "precision" not in results:  # no mask was found in any image
            occurred = {self.target.names[at]: count for at, count in sorted(self.counts.items()) if count}
            return scores, {name: {"ap": 0.0, "ap_50": 0.0, "count": count} for name, count in occurred.items()}
        precision = results["precision"]  # overlaps × recalls × categories × sizes × numbers of objects
        for at, label in enumerate(results["classes"].reshape(-1).tolist()):
            if self.counts[label - FIRST]:
                here = precision[:, :, at, 0, -1]
                name, count = self.target.names[label - FIRST], self.counts[label - FIRST]
                per_category[name] = {"ap": _mean(here), "ap_50": _mean(here[0]), "count": count}
        return scores, per_category


def _mean(precision: Tensor) -> float:
    known = precision[precision > -1]
    return float(known.mean()) if known.numel() else math.nan


def _in_pixels(value: Objects, size: tuple[int, int]) -> Objects:
    if not value.is_relative:
        return value
    width, height = size
    edges = (one.box for one in value.each)
    boxes = [(left * width, top * height, right * width, bottom * height) for left, top, right, bottom in edges]
    return Objects(tuple(one._replace(box=box, part=None) for one, box in zip(value.each, boxes, strict=True)))


def _sample(name: str, found: Prediction, actual: Objects, names: tuple[str, ...]) -> Sample:
    """Objects are found if a box of their category overlaps theirs by half; each box finds one object, the most certain
    first."""
    there = [one for one in actual.each if not one.is_crowd]
    left, wrong = set(range(len(there))), list[float]()
    pair = ([one.box for one in found], [one.box for one in there])
    overlaps = box_iou(*(torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4) for boxes in pair)).numpy()
    for at, one in enumerate(found):
        fits = [other for other in left if there[other].category == one.category and overlaps[at, other] >= OVERLAP]
        if fits:
            left.remove(max(fits, key=lambda other, at=at: overlaps[at, other]))  # type: ignore[misc]
        else:
            wrong.append(one.score)
    return Sample(name, found, actual, len(left), len(wrong), max(wrong, default=math.nan), names)
