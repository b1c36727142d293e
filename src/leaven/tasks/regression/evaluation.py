"""How well a regression model does: errors in the target's own units, and the images with the largest ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from leaven.formats.score_text import score_text
from leaven.tasks.aligned import aligned
from leaven.tasks.regression.prediction import digits, in_units
from leaven.tasks.regression.target import Quantities

WORST = 10


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What was measured: the actual and the predicted numbers, one row per image and one column per name."""

    target: Quantities
    files: tuple[str, ...]
    actual: np.ndarray
    predicted: np.ndarray
    skipped: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many images were measured."""
        return len(self.files)

    @property
    def per_target(self) -> dict[str, dict[str, float]]:
        """The mean absolute error, the root mean squared error and R² of each number."""
        errors = self.predicted - self.actual
        spread = ((self.actual - self.actual.mean(axis=0)) ** 2).sum(axis=0)
        return {
            name: {
                "mae": float(np.abs(errors[:, i]).mean()),
                "rmse": float(np.sqrt((errors[:, i] ** 2).mean())),
                "r2": float(1 - (errors[:, i] ** 2).sum() / spread[i]) if spread[i] else math.nan,
            }
            for i, name in enumerate(self.target.names)
        }

    @property
    def scores(self) -> dict[str, float]:
        """`mae`, `rmse` and `r2`; of several numbers `age.mae` and so on."""
        found = self.per_target
        if len(found) == 1:
            return next(iter(found.values()))
        return {f"{name}.{score}": value for name, scores in found.items() for score, value in scores.items()}

    def worst(self, k: int = WORST) -> list[tuple[str, dict[str, float], dict[str, float]]]:
        """The k images with the largest errors, in standard deviations: file, actual and predicted numbers."""
        scale = np.array([std for _, std in self.target.scales])
        errors = (np.abs(self.predicted - self.actual) / scale).max(axis=1)
        order = np.argsort(-errors, kind="stable")[:k]
        return [(self.files[at], self._row(self.actual[at]), self._row(self.predicted[at])) for at in order]

    def _row(self, numbers: np.ndarray) -> dict[str, float]:
        return dict(zip(self.target.names, map(float, numbers), strict=True))

    def to_json(self) -> dict[str, Any]:
        worst = [{"file": file, "actual": actual, "predicted": said} for file, actual, said in self.worst()]
        return {
            "images": self.count,
            "scores": {name: value if math.isfinite(value) else None for name, value in self.scores.items()},
            "worst": worst,
            "skipped": list(self.skipped),
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.count} images", *self._score_lines(), "", "largest errors", *self._worst_lines()])

    def _score_lines(self) -> list[str]:
        if len(self.target.names) == 1:
            width = max(map(len, self.scores))
            return [f"{name:<{width}}  {score_text(value)}" for name, value in self.scores.items()]
        rows = [[name, *(score_text(value) for value in scores.values())] for name, scores in self.per_target.items()]
        return aligned([["", "mae", "rmse", "r2"], *rows])

    def _worst_lines(self) -> list[str]:
        names = self.target.names
        heads = [f"{word} {name}" if len(names) > 1 else word for name in names for word in ("actual", "predicted")]
        spread = dict(zip(names, (std for _, std in self.target.scales), strict=True))
        rows = []
        for file, actual, said in self.worst():
            pairs = [(number, spread[name]) for name in names for number in (actual[name], said[name])]
            rows.append([file, *(digits(number, std) for number, std in pairs)])
        return aligned([["file", *heads], *rows])

    def __repr__(self) -> str:
        return f"<Evaluation: {', '.join(f'{name} {score_text(value)}' for name, value in self.scores.items())}>"


class Tally:
    """Collects the actual and the predicted numbers."""

    def __init__(self, target: Quantities) -> None:
        self.target = target
        self.files: list[str] = []
        self.actual: list[list[float]] = []
        self.predicted: list[list[float]] = []

    def add(self, outputs: Tensor, values: Sequence[Any], names: Sequence[str]) -> None:
        self.files += names
        self.actual += [list(self.target.plain(value).values()) for value in values]
        self.predicted += in_units(outputs.double(), self.target).tolist()

    def result(self, skipped: tuple[str, ...]) -> Evaluation:
        return Evaluation(self.target, tuple(self.files), np.array(self.actual), np.array(self.predicted), skipped)
