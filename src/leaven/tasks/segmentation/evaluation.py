"""How well a segmentation model does: the intersection over union of each class, at the size of the images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from leaven.pictures.confusion import draw_confusion
from leaven.tasks import protocol
from leaven.tasks.guesses import one_class_of_pixels, shown
from leaven.tasks.protocol import Case, Plot, Table
from leaven.tasks.reports import aligned, finite
from leaven.tasks.segmentation.masks import confusion, ious, largest_shares, mean_iou, read_mask
from leaven.tasks.segmentation.overlay import overlay
from leaven.tasks.segmentation.target import MaskClasses
from leaven.terminal.score_text import score_text

WORST = 10
_LARGEST = 240  # pixels of the longer side of a mask that is kept to be shown


@dataclass(frozen=True, eq=False)
class Measured:
    """One image: its mean IoU, and its pixels by actual and predicted class; small masks to show."""

    file: str
    iou: float
    actual: np.ndarray
    predicted: np.ndarray

    def drawn(self, image: Image.Image, target: MaskClasses) -> Image.Image:
        """The image under its actual classes, beside the same under the predicted ones."""
        width, height = self.actual.shape[1], self.actual.shape[0]
        pixels = np.asarray(image.convert("RGB").resize((width, height)))
        both = [overlay(pixels, mask, target) for mask in (self.actual, self.predicted)]
        return Image.fromarray(np.concatenate(both, axis=1 if height >= width else 0))


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(protocol.Evaluation):
    """The pixels of all images by actual and predicted class."""

    graded_by = "1 − IoU"

    target: MaskClasses
    matrix: np.ndarray
    images: tuple[Measured, ...]

    @property
    def count(self) -> int:
        return len(self.images)

    @property
    def scores(self) -> dict[str, float]:
        """The mean IoU of the classes, and the share of the pixels that are right."""
        accuracy = float(np.trace(self.matrix) / max(1, self.matrix.sum()))
        return {"iou": mean_iou(self.matrix, math.nan), "accuracy": accuracy}

    @property
    def per_class(self) -> dict[str, dict[str, float]]:
        """IoU, precision and recall of each class, and its share of the pixels."""
        right = np.diag(self.matrix).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            precision, recall = right / self.matrix.sum(axis=0), right / self.matrix.sum(axis=1)
            share = self.matrix.sum(axis=1) / max(1, self.matrix.sum())
        columns = {"iou": ious(self.matrix), "precision": precision, "recall": recall, "share": share}
        names = enumerate(self.target.names)
        return {name: {word: float(values[at]) for word, values in columns.items()} for at, name in names}

    @property
    def caveat(self) -> str:
        """A line about a model that is no better than one class for all pixels, by accuracy and by IoU; else empty."""
        actual, predicted = self.matrix.sum(axis=1), self.matrix.sum(axis=0)
        if np.count_nonzero(actual) < 2:
            return ""
        if np.count_nonzero(predicted) == 1:
            only = int(predicted.argmax())
            return one_class_of_pixels(self.target.names[only], actual[only] / actual.sum())
        most = int(actual.argmax())
        share, scores = actual[most] / actual.sum(), self.scores
        if scores["accuracy"] > share or scores["iou"] > share / np.count_nonzero(actual):
            return ""
        comparison = f"accuracy {score_text(scores['accuracy'])} against {score_text(share)}"
        return f"no better than always predicting {shown(self.target.names[most])}: {comparison}"

    def ranked(self) -> list[int]:
        """By the mean IoU of the classes in the image."""
        return [int(at) for at in np.argsort([each.iou for each in self.images], kind="stable")]

    def tables(self) -> list[Table]:
        rows = [[name, *map(score_text, scores.values())] for name, scores in self.per_class.items()]
        return [Table("Classes", ("class", "iou", "precision", "recall", "share of pixels"), rows)]

    def plots(self) -> list[Plot]:
        names, matrix = self.target.names, self.matrix
        return [Plot("confusion", "Actual and predicted classes of pixels", lambda: draw_confusion(names, matrix))]

    def case(self, at: int) -> Case:
        image = self.images[at]
        masks = (image.actual, image.predicted)
        actual, predicted = (", ".join(largest_shares(mask, self.target.names)) for mask in masks)
        draw = partial(image.drawn, target=self.target)
        return Case(at, image.file, actual, predicted, f"IoU {image.iou:.3f}", image.iou > 0.5, draw)

    def error(self, at: int) -> float:
        """1 − IoU; nothing is wrong where no pixel is labelled."""
        iou = self.images[at].iou
        return 0.0 if math.isnan(iou) else 1 - iou

    def columns(self) -> dict[str, Any]:
        return {**super().columns(), "iou": np.array([image.iou for image in self.images])}

    def wrong(self) -> list[dict[str, str]]:
        """All images: hardly any is right in every pixel."""
        return [{"file": one.file, "iou": f"{one.iou:.6f}"} for one in self._worst_images()]

    def _worst_images(self) -> list[Measured]:
        return [self.images[at] for at in self.ranked()]

    def details(self) -> dict[str, Any]:
        images = [{"file": one.file, "iou": one.iou} for one in self._worst_images()]
        return {
            "classes": {name: finite(values) for name, values in self.per_class.items()},
            "worst": images[:WORST],
            "wrong": images,
        }

    def lines_below(self) -> list[str]:
        classes = aligned([["", "iou", "precision", "recall", "share"], *self.tables()[0].rows])
        worst = [[one.file, f"{one.iou:.4f}"] for one in self._worst_images()[:WORST]]
        return [*classes, "", *aligned([["lowest", "iou"], *worst])]


class Tally:
    """Adds up pixels by actual and predicted class."""

    def __init__(self, target: MaskClasses) -> None:
        self.target = target
        self.matrix = np.zeros((len(target.names), len(target.names)), np.int64)
        self.images: list[Measured] = []

    def add(self, outputs: Sequence[Tensor], values: Sequence[Any], names: Sequence[str]) -> None:
        for output, value, name in zip(outputs, values, names, strict=True):
            predicted = output.numpy()
            actual = read_mask(value, (predicted.shape[1], predicted.shape[0]))
            matrix = confusion(actual, predicted, len(self.target.names))
            self.matrix += matrix
            mean = mean_iou(matrix, 1.0)  # nothing to say, nothing said
            self.images.append(Measured(name, mean, _smaller(actual), _smaller(predicted)))

    def result(self, skipped: tuple[str, ...]) -> Evaluation:
        return Evaluation(self.target, self.matrix, tuple(self.images), skipped=skipped)


def _smaller(mask: np.ndarray) -> np.ndarray:
    """A mask that is small enough to be kept for every image."""
    step = max(1, math.ceil(max(mask.shape) / _LARGEST))
    return np.ascontiguousarray(mask[::step, ::step].astype(np.int16))
