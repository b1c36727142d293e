"""How well a regression model does: errors in the target's own units, and the images with the largest ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from leaven.pictures.scatter import draw_scatter
from leaven.tasks import protocol
from leaven.tasks.guesses import same_numbers
from leaven.tasks.protocol import Case, Plot, Table
from leaven.tasks.regression.prediction import digits, in_units
from leaven.tasks.regression.target import Quantities
from leaven.tasks.reports import aligned
from leaven.terminal.score_text import score_text

WORST = 10


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(protocol.Evaluation):
    """The actual and the predicted numbers, one row per image and one column per name."""

    graded_by = "absolute error"

    target: Quantities
    files: tuple[str, ...]
    actual: np.ndarray
    predicted: np.ndarray

    @property
    def count(self) -> int:
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
        per_target = self.per_target
        if len(per_target) == 1:
            return next(iter(per_target.values()))
        return {f"{name}.{score}": value for name, scores in per_target.items() for score, value in scores.items()}

    @property
    def caveat(self) -> str:
        """A line about a model that is no better than the mean of what was measured; else empty."""
        known = [scores["r2"] for scores in self.per_target.values() if math.isfinite(scores["r2"])]
        if not known or self.count < 2:
            return ""
        if not (self.predicted != self.predicted[0]).any():
            return same_numbers(self.predicted[0].tolist(), self.count)
        r2 = ", ".join(map(score_text, known))
        return "" if max(known) > 0 else f"no better than always predicting the mean of these {self.inputs}: r2 {r2}"

    def worst(self, k: int = WORST) -> list[tuple[str, dict[str, float], dict[str, float]]]:
        """The k images with the largest errors, in standard deviations: file, actual and predicted numbers."""
        order = self.ranked()[:k]
        return [(self.files[at], self._row(self.actual[at]), self._row(self.predicted[at])) for at in order]

    def ranked(self) -> list[int]:
        """By the largest error, in standard deviations."""
        scale = np.array([std for _, std in self.target.scales])
        errors = (np.abs(self.predicted - self.actual) / scale).max(axis=1)
        return [int(at) for at in np.argsort(-errors, kind="stable")]

    def tables(self) -> list[Table]:
        rows = [[name, *(score_text(value) for value in scores.values())] for name, scores in self.per_target.items()]
        return [Table("Targets", ("target", "mae", "rmse", "r2"), rows)]

    def plots(self) -> list[Plot]:
        pairs = {name: (self.actual[:, i], self.predicted[:, i]) for i, name in enumerate(self.target.names)}
        return [Plot("scatter", "Actual and predicted", lambda: draw_scatter(pairs))]

    def wrong(self) -> list[dict[str, str]]:
        """All images: no number is quite right."""
        rows = []
        for file, actual, predicted in self.worst(self.count):
            row = {"file": file}
            for name in actual:
                row |= {f"actual_{name}": f"{actual[name]:.9g}", f"predicted_{name}": f"{predicted[name]:.9g}"}
            rows.append(row)
        return rows

    def case(self, at: int) -> Case:
        actual, predicted = self.actual[at], self.predicted[at]
        off = f"off by {digits(predicted[0] - actual[0], self.target.scales[0][1])}" if len(predicted) == 1 else ""
        return Case(at, self.files[at], self._text(actual), self._text(predicted), off, is_right=False)

    def error(self, at: int) -> float:
        """The absolute error; of several numbers the mean, each in the standard deviations of what was measured."""
        apart, spread = np.abs(self.predicted[at] - self.actual[at]), self.actual.std(axis=0)
        return float(apart[0] if len(apart) == 1 else (apart / np.where(spread > 0, spread, 1)).mean())

    def columns(self) -> dict[str, Any]:
        return {**super().columns(), "numbers": self.predicted, "actual": self.actual}

    def _text(self, numbers: np.ndarray) -> str:
        """Numbers with their names, one to a line; a single one alone."""
        shown = [digits(number, std) for number, (_, std) in zip(numbers, self.target.scales, strict=True)]
        if len(shown) == 1:
            return shown[0]
        return "\n".join(f"{name} {number}" for name, number in zip(self.target.names, shown, strict=True))

    def _row(self, numbers: np.ndarray) -> dict[str, float]:
        return dict(zip(self.target.names, map(float, numbers), strict=True))

    def details(self) -> dict[str, Any]:
        all_worst = self.worst(self.count)
        images = [{"file": file, "actual": actual, "predicted": predicted} for file, actual, predicted in all_worst]
        return {"worst": images[:WORST], "wrong": images}

    def score_lines(self) -> list[str]:
        if len(self.target.names) == 1:
            return super().score_lines()
        return aligned([["", "mae", "rmse", "r2"], *self.tables()[0].rows])

    def lines_below(self) -> list[str]:
        names = self.target.names
        heads = [f"{word} {name}" if len(names) > 1 else word for name in names for word in ("actual", "predicted")]
        spread = dict(zip(names, (std for _, std in self.target.scales), strict=True))
        rows = []
        for file, actual, predicted in self.worst():
            pairs = [(number, spread[name]) for name in names for number in (actual[name], predicted[name])]
            rows.append([file, *(digits(number, std) for number, std in pairs)])
        return ["largest errors", *aligned([["file", *heads], *rows])]


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
        numbers = np.array(self.actual), np.array(self.predicted)
        return Evaluation(self.target, tuple(self.files), *numbers, skipped=skipped)
