"""How well a multi-label model does, over all labels and for each of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from torch import Tensor

from leaven.pictures.bars import draw_bars
from leaven.tasks import protocol
from leaven.tasks.guesses import same_labels
from leaven.tasks.multilabel.prediction import THRESHOLD
from leaven.tasks.multilabel.target import LabelSet
from leaven.tasks.protocol import MOST_NUMBERS, Case, Plot, Table
from leaven.tasks.reports import percent, score_rows, table_lines

_HEADS = ("precision", "recall", "f1", "average_precision")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(protocol.Evaluation):
    """The actual labels and the predicted probabilities, one row per image and one column per label."""

    names: tuple[str, ...]
    actual: np.ndarray
    probabilities: np.ndarray
    files: tuple[str, ...] = ()
    separator: str = ";"

    @property
    def count(self) -> int:
        return len(self.actual)

    @property
    def predicted(self) -> np.ndarray:
        return self.probabilities >= THRESHOLD

    @property
    def per_label(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1, average precision and number of images of each label that occurred."""
        predicted = self.predicted
        scores = {}
        for at, name in enumerate(self.names):
            actual, positive = self.actual[:, at], predicted[:, at]
            if not actual.any():
                continue
            right = float((actual & positive).sum())
            scores[name] = {
                "precision": right / float(positive.sum()) if positive.any() else 0.0,
                "recall": right / float(actual.sum()),
                "f1": 2 * right / float(actual.sum() + positive.sum()),
                "average_precision": average_precision(actual, self.probabilities[:, at]),
                "count": int(actual.sum()),
            }
        return scores

    @property
    def scores(self) -> dict[str, float]:
        """The means over the labels that occurred; `exact` is the share of images with all labels right."""
        per_label = self.per_label.values()
        right = self.predicted == self.actual
        means = {name: [one[name] for one in per_label] for name in ("average_precision", "f1")}
        return {
            **{name: float(np.mean(each)) if each else math.nan for name, each in means.items()},
            "accuracy": float(right.mean()),
            "exact": float(right.all(axis=1).mean()),
        }

    @property
    def caveat(self) -> str:
        """A line about a model that predicts the same labels for all, which are not; else empty."""
        predicted = self.predicted
        if (predicted != predicted[0]).any() or not (self.actual != self.actual[0]).any():
            return ""
        return same_labels(list(compress(self.names, predicted[0])), self.count)

    def tables(self) -> list[Table]:
        """Of many labels, those that are predicted worst come first."""
        rows = score_rows(self.per_label, _HEADS, "f1")
        return [Table("Labels", ("label", "precision", "recall", "f1", "avg precision", self.inputs), rows)]

    def plots(self) -> list[Plot]:
        bars = {name: (one["precision"], one["recall"]) for name, one in self.per_label.items()}
        return [Plot("labels", "Precision and recall", lambda: draw_bars(bars, ("precision", "recall")))]

    def wrong(self) -> list[dict[str, str]]:
        return [
            {key: value if isinstance(value, str) else self.separator.join(value) for key, value in row.items()}
            for row in self._wrong()
        ]

    def ranked(self) -> list[int]:
        """By the mean cross-entropy over the labels."""
        likely = np.where(self.actual, self.probabilities, 1 - self.probabilities)
        loss = -np.log(np.clip(likely, 1e-12, 1)).mean(axis=1)
        return [int(at) for at in np.argsort(-loss, kind="stable")] if self.files else []

    def _wrong(self) -> list[dict[str, Any]]:
        is_wrong = (self.predicted != self.actual).any(axis=1)
        return [self._labels(at) for at in self.ranked() if is_wrong[at]]

    def _labels(self, at: int) -> dict[str, Any]:
        """The actual and the predicted labels of an image."""
        return {
            "file": self.files[at],
            "actual": list(compress(self.names, self.actual[at])),
            "predicted": list(compress(self.names, self.predicted[at])),
        }

    def case(self, at: int) -> Case:
        labels = self._labels(at)
        marks = zip(self.names, self.actual[at], self.predicted[at], self.probabilities[at], strict=True)
        shares = [
            f"{'missed' if is_so else 'wrongly'} {name} ({percent(share)})"
            for name, is_so, is_predicted, share in marks
            if is_so != is_predicted
        ]
        actual, predicted = (", ".join(labels[key]) or "no label" for key in ("actual", "predicted"))
        return Case(at, labels["file"], actual, predicted, ", ".join(shares), not shares)

    def columns(self) -> dict[str, Any]:
        """The confidence is that in the most certain label that is wrong, or in the least certain one where all are
        right."""
        certain = np.maximum(self.probabilities, 1 - self.probabilities)
        is_wrong = self.predicted != self.actual
        worst = np.where(is_wrong, certain, 0).max(axis=1)
        likely = np.clip(np.where(self.actual, self.probabilities, 1 - self.probabilities), 1e-12, 1)
        found = {
            "file": list(self.files),
            "label": [self.separator.join(compress(self.names, row)) for row in self.actual],
            "prediction": [self.separator.join(compress(self.names, row)) for row in self.predicted],
            "confidence": np.where(is_wrong.any(axis=1), worst, certain.min(axis=1)),
            "error": is_wrong.any(axis=1).astype(np.float64),
            "loss": -np.log(likely).mean(axis=1),
        }
        if self.probabilities.size > MOST_NUMBERS:
            return found
        return {**found, "probabilities": self.probabilities.astype(np.float32), "labels": self.actual}

    def details(self) -> dict[str, Any]:
        return {"labels": list(self.names), "per_label": self.per_label, "wrong": self._wrong()}

    def lines_below(self) -> list[str]:
        if not self.per_label:
            return [f"none of the {self.inputs} has a label that the model knows"]
        return table_lines(self.tables()[0], "label", "labels")


def average_precision(actual: np.ndarray, scores: np.ndarray) -> float:
    """The mean precision at each level of recall; equal scores are one level."""
    order = np.argsort(-scores, kind="stable")
    hits, ranked = actual[order].cumsum(), scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True)  # of each level
    precision, recall = (hits / np.arange(1, len(hits) + 1))[last], (hits / actual.sum())[last]
    return float((np.diff(recall, prepend=0.0) * precision).sum())


class Tally:
    """Collects the actual labels and the probabilities."""

    def __init__(self, target: LabelSet) -> None:
        self.target = target
        self.files: list[str] = []
        self.actual: list[Sequence[float]] = []
        self.probabilities: list[list[float]] = []

    def add(self, outputs: Tensor, values: Sequence[Any], names: Sequence[str]) -> None:
        self.files += names
        self.actual += values
        self.probabilities += outputs.double().sigmoid().tolist()

    def result(self, skipped: tuple[str, ...]) -> Evaluation:
        actual, probabilities = np.array(self.actual) > 0, np.array(self.probabilities)
        files, separator = tuple(self.files), self.target.separator
        return Evaluation(self.target.names, actual, probabilities, files, separator, skipped=skipped)
