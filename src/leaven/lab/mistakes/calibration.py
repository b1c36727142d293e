"""Whether a model is right as often as it is confident: its answers by confidence, and the mean error of that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leaven.formats.finite_json import as_json
from leaven.lab.mistakes.samples import Samples

BINS = 10  # of equal width


@dataclass(frozen=True)
class Bin:
    """The answers whose confidence is in a range: how many, their mean confidence, and the share that is right."""

    low: float
    high: float
    count: int
    confidence: float
    right: float

    @as_json
    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Calibration:
    """`error` is the mean distance of confidence and share right over the bins, weighted by their counts (ECE)."""

    error: float
    confidence: float
    right: float
    bins: Sequence[Bin]

    @as_json
    def to_json(self) -> dict[str, Any]:
        whole = {"expected_calibration_error": self.error, "confidence": self.confidence, "right": self.right}
        return {**whole, "bins": [one.to_json() for one in self.bins]}

    def __str__(self) -> str:
        points = 100 * (self.confidence - self.right)
        how = "overconfident" if points > 0 else "underconfident"
        means = f"{100 * self.confidence:.1f} % confident on average, {100 * self.right:.1f} % right"
        return f"{means}: {how} by {abs(points):.1f} points; expected calibration error {self.error:.3f}"


def calibration(samples: Samples) -> Calibration | str:
    """The calibration of a model, or why it has none."""
    match samples.kind:
        case "class":
            confidence, right = samples.numbers("confidence"), 1 - samples.numbers("error")
        case "binary":
            shares, truth = samples.rows_of("probabilities"), samples.rows_of("labels")
            if shares is None or truth is None:
                return "calibration: the probabilities of so many labels are not recorded"
            confidence = np.maximum(shares, 1 - shares).ravel()
            right = ((shares >= 0.5) == (truth > 0.5)).ravel().astype(float)
            right[np.isnan(shares).ravel()] = np.nan
        case _:
            return "calibration: only for classes and labels, whose predictions are probabilities"
    known = ~(np.isnan(confidence) | np.isnan(right))
    return _binned(confidence[known], right[known]) if known.any() else "calibration: nothing was measured"


def _binned(confidence: np.ndarray, right: np.ndarray) -> Calibration:
    at = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = []
    for number in np.unique(at).tolist():
        inside = at == number
        means = float(confidence[inside].mean()), float(right[inside].mean())
        bins.append(Bin(number / BINS, (number + 1) / BINS, int(inside.sum()), *means))
    error = sum(one.count * abs(one.confidence - one.right) for one in bins) / len(confidence)
    return Calibration(error, float(confidence.mean()), float(right.mean()), tuple(bins))
