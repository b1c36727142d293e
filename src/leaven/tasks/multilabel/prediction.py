"""The prediction of a multi-label model for one image."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from leaven.tasks import protocol
from leaven.tasks.multilabel.target import LabelSet
from leaven.tasks.reports import largest_first, percent, share_lines

THRESHOLD = 0.5
NONE = "no label"  # in place of labels


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(protocol.Prediction):
    """The probability of every label; each is independent of the others."""

    names: tuple[str, ...]
    probabilities: np.ndarray
    separator: str = ";"
    threshold: float = THRESHOLD

    def above_threshold(self, threshold: float) -> "Prediction":
        return replace(self, threshold=threshold)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are likely enough, by default more likely than not; the most likely first."""
        return tuple(name for name, _ in self.above(self.threshold))

    def above(self, threshold: float) -> list[tuple[str, float]]:
        """The labels that are at least so likely, with their probabilities, the most likely first."""
        return [(name, share) for name, share in self.top(len(self.names)) if share >= threshold]

    def top(self, k: int = 5) -> list[tuple[str, float]]:
        """The k most likely labels with their probabilities, the most likely first."""
        return largest_first(self.names, self.probabilities, k)

    def __getitem__(self, name: str) -> float:
        """The probability of a label."""
        return float(self.probabilities[self.names.index(name)])

    def describe(self, top: int) -> str:
        likely = self.above(self.threshold)
        lines = share_lines(likely or self.top(top))
        return "\n".join(lines if likely else ["no label; the most likely are:", *lines])

    def cells(self, top: int, *, on_screen: bool = False) -> dict[str, str]:
        """All labels in one cell, and their probabilities in another."""
        likely, write = self.above(self.threshold), percent if on_screen else "{:.6f}".format
        labels, shares = [name for name, _ in likely], [write(share) for _, share in likely]
        return {"labels": self.separator.join(labels), "confidences": self.separator.join(shares)}

    def to_json(self, top: int) -> dict[str, Any]:
        def ranked(pairs: list[tuple[str, float]]) -> list[dict[str, Any]]:
            return [{"label": name, "confidence": share} for name, share in pairs]

        return {"labels": ranked(self.above(self.threshold)), "top": ranked(self.top(top))}

    @property
    def answer(self) -> str:
        return self.separator.join(sorted(self.labels)) or NONE

    def numbers(self) -> dict[str, float]:
        return dict(zip(self.names, self.probabilities.tolist(), strict=True))

    def is_answer(self, expected: str) -> bool:
        """The labels may be in any order."""
        return sorted(filter(None, map(str.strip, expected.split(self.separator)))) == sorted(self.labels or [NONE])

    def __repr__(self) -> str:
        found = ", ".join(f"{name} {percent(share)}" for name, share in self.above(self.threshold))
        return f"<Prediction: {found or NONE}>"


def predictions(outputs: Tensor, target: LabelSet) -> list[Prediction]:
    """The predictions from a batch of logits."""
    shares = outputs.double().sigmoid().cpu().numpy()
    return [Prediction(target.names, np.asarray(row), target.separator) for row in shares]
