"""How well a classifier does: scores, and which classes it takes for which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leaven.pictures.confusion import draw_confusion
from leaven.tasks import protocol
from leaven.tasks.classification.target import Classes
from leaven.tasks.guesses import one_class, shown
from leaven.tasks.protocol import MOST_NUMBERS, Case, Plot, Table
from leaven.tasks.reports import aligned, percent, score_rows, table_lines
from leaven.terminal.visible import visible

FEW_CLASSES = 12  # up to so many, a whole confusion matrix is readable
MOST_PAIRS = 15
_HEADS = ("precision", "recall", "f1")
TOP = 5
_CORNER = "actual \\ predicted"


@dataclass(frozen=True)
class Sample:
    """An image that was measured: its class, the predicted one, and the probability of each."""

    file: str
    actual: int
    predicted: int
    confidence: float
    actual_confidence: float

    @property
    def is_right(self) -> bool:
        return self.actual == self.predicted


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(protocol.Evaluation):
    """The results of a classifier. `confusion[t, p]` counts images of class t that were predicted as p."""

    classes: tuple[str, ...]
    scores: dict[str, float]
    confusion: np.ndarray
    samples: tuple[Sample, ...] = ()
    probabilities: np.ndarray | None = None  # of each class; None where these are too many numbers

    @property
    def accuracy(self) -> float:
        return self.scores["accuracy"]

    @property
    def count(self) -> int:
        return int(self.confusion.sum())

    @property
    def per_class(self) -> dict[str, dict[str, float]]:
        """Recall, precision, F1 and number of images of each class that occurred."""
        right, actual, predicted = self.confusion.diagonal(), self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        return {
            name: {
                "recall": float(right[i] / actual[i]),
                "precision": float(right[i] / predicted[i]) if predicted[i] else 0.0,
                "f1": float(2 * right[i] / (actual[i] + predicted[i])),
                "count": int(actual[i]),
            }
            for i, name in enumerate(self.classes)
            if actual[i]
        }

    @property
    def caveat(self) -> str:
        """A line about a model that is no better than one class for all, both by accuracy and by F1; else empty."""
        actual, predicted = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        most, right = int(actual.argmax()), int(self.confusion.trace())
        if np.count_nonzero(actual) < 2:
            return ""
        if np.count_nonzero(predicted) == 1:
            only = int(predicted.argmax())
            return one_class(self.classes[only], int(actual[only]), self.count)
        share = actual[most] / self.count
        best_guess = 2 * share / (1 + share) / len(self.per_class)
        if right > actual[most] or np.mean([each["f1"] for each in self.per_class.values()]) > best_guess:
            return ""
        comparison = f"{right:,} of {self.count:,} are right, and {actual[most]:,} are {shown(self.classes[most])}"
        return f"no better than always predicting {shown(self.classes[most])}: {comparison}"

    def confused(self, k: int = MOST_PAIRS) -> list[tuple[str, str, int]]:
        """The k most frequent errors: the actual class, the predicted one, how often."""
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:k]
        pairs = [(int(place) // len(self.classes), int(place) % len(self.classes)) for place in order]
        return [(self.classes[t], self.classes[p], int(wrong[t, p])) for t, p in pairs if wrong[t, p]]

    def table(self) -> str:
        """The confusion matrix; of many classes, only the most frequent errors."""
        return _matrix(self.classes, self.confusion) if len(self.classes) <= FEW_CLASSES else _pairs(self)

    def tables(self) -> list[Table]:
        """Of many classes, those that are predicted worst come first."""
        scores = self.per_class
        tables = [Table("Classes", ("class", *_HEADS, self.inputs), score_rows(scores, _HEADS, "f1"))]
        if pairs := self.confused():
            errors = [(true, predicted, f"{count} of {scores[true]['count']}") for true, predicted, count in pairs]
            tables.append(Table("Most frequent errors", ("actual", "predicted", "how often"), errors))
        return tables

    def plots(self) -> list[Plot]:
        return [Plot("confusion", "Confusion matrix", lambda: draw_confusion(self.classes, self.confusion))]

    def ranked(self) -> list[int]:
        """By the probability of the actual class; what was predicted rightly comes last."""

        def badness(at: int) -> tuple[bool, float]:
            return self.samples[at].is_right, self.samples[at].actual_confidence

        return sorted(range(len(self.samples)), key=badness)

    def case(self, at: int) -> Case:
        one = self.samples[at]
        actual = f"{self.classes[one.actual]} ({percent(one.actual_confidence)})"
        predicted = f"{self.classes[one.predicted]} ({percent(one.confidence)})"
        return Case(at, one.file, actual, predicted, "", one.is_right)

    def wrong(self) -> list[dict[str, str]]:
        return [
            {
                "file": one.file,
                "actual": self.classes[one.actual],
                "predicted": self.classes[one.predicted],
                "confidence": f"{one.confidence:.6f}",
                "confidence_actual": f"{one.actual_confidence:.6f}",
            }
            for one in (self.samples[at] for at in self.ranked())
            if not one.is_right
        ]

    def columns(self) -> dict[str, Any]:
        likely = np.array([one.actual_confidence for one in self.samples])
        found = {
            "file": [one.file for one in self.samples],
            "label": [self.classes[one.actual] for one in self.samples],
            "prediction": [self.classes[one.predicted] for one in self.samples],
            "confidence": np.array([one.confidence for one in self.samples]),
            "label_confidence": likely,
            "error": np.array([float(not one.is_right) for one in self.samples]),
            "loss": -np.log(np.clip(likely, np.finfo(float).tiny, 1)),
        }
        return found if self.probabilities is None else {**found, "probabilities": self.probabilities}

    def details(self) -> dict[str, Any]:
        pairs = [{"actual": true, "predicted": predicted, "count": count} for true, predicted, count in self.confused()]
        wrong = [
            {**row, "confidence": float(row["confidence"]), "confidence_actual": float(row["confidence_actual"])}
            for row in self.wrong()
        ]
        return {
            "classes": list(self.classes),
            "per_class": self.per_class,
            "confusion": self.confusion.tolist(),
            "confused": pairs,
            "wrong": wrong,
        }

    def lines_below(self) -> list[str]:
        return [*table_lines(self.tables()[0], "class", "classes"), "", self.table()]


class Tally:
    """Counts the images of every class by what was predicted for them."""

    def __init__(self, target: Classes) -> None:
        self.target = target
        self.confusion: np.ndarray = np.zeros((len(target.names), len(target.names)), dtype=np.int64)
        self.samples: list[Sample] = []
        self.shares: list[np.ndarray] = []
        self.loss = 0.0
        self.near = 0

    def add(self, outputs: Tensor, values: Sequence[int], names: Sequence[str]) -> None:
        labels = torch.tensor(values)
        self.loss += float(nn.functional.cross_entropy(outputs.double(), labels, reduction="sum"))
        predicted = outputs.argmax(dim=1)
        np.add.at(self.confusion, (labels.numpy(), predicted.numpy()), 1)
        shares = outputs.double().softmax(dim=1)
        if len(self.samples) * len(self.target.names) <= MOST_NUMBERS:
            self.shares.append(shares.float().numpy())
        likely = (shares.gather(1, at[:, None]).squeeze(1).tolist() for at in (predicted, labels))
        self.samples += map(Sample, names, values, predicted.tolist(), *likely)
        top = outputs.topk(min(TOP, outputs.shape[1]), dim=1).indices
        self.near += int((top == labels[:, None]).any(dim=1).sum())

    def result(self, skipped: tuple[str, ...]) -> Evaluation:
        total = int(self.confusion.sum())
        top = {f"top{TOP}": self.near / total} if len(self.confusion) > TOP else {}
        scores = {"accuracy": float(self.confusion.trace() / total), **top, "loss": self.loss / total}
        shares = np.concatenate(self.shares)
        kept = shares if len(shares) == len(self.samples) else None
        return Evaluation(self.target.names, scores, self.confusion, tuple(self.samples), kept, skipped=skipped)


def _matrix(classes: Sequence[str], confusion: np.ndarray) -> str:
    """One row per actual class, one column per predicted one; a dot means none."""
    cells = [[str(count) if count else "·" for count in row] for row in confusion.tolist()]
    heads = [name if len(name) <= 8 else name[:7] + "…" for name in map(visible, classes)]
    rows = ([name, *row] for name, row in zip(classes, cells, strict=True))
    return "\n".join(aligned([[_CORNER, *heads], *rows]))


def _pairs(evaluation: Evaluation) -> str:
    pairs = evaluation.confused()
    if not pairs:
        return "no errors"
    occurred = evaluation.per_class
    rows = [("actual", "predicted", "how often")]
    for actual, predicted, count in pairs:
        total = int(occurred[actual]["count"])
        rows.append((visible(actual), visible(predicted), f"{count} of {total} ({percent(count / total)})"))
    first, second = (max(len(row[at]) for row in rows) for at in (0, 1))
    return "\n".join(f"{row[0]:<{first}}  {row[1]:<{second}}  {row[2]}" for row in rows)
