"""The prediction of a classifier for one image."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from leaven.tasks import protocol
from leaven.tasks.classification.target import Classes
from leaven.tasks.reports import aligned_percent, largest_first, percent, ranked_cells, share_lines

SHOWN = 3


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(protocol.Prediction):
    """The probability of every class; they add up to one."""

    classes: tuple[str, ...]
    probabilities: np.ndarray

    @property
    def label(self) -> str:
        """The most likely class."""
        return self.classes[int(self.probabilities.argmax())]

    @property
    def confidence(self) -> float:
        """The probability of that class."""
        return float(self.probabilities.max())

    def top(self, k: int = 5) -> list[tuple[str, float]]:
        """The k most likely classes with their probabilities, the most likely first."""
        return largest_first(self.classes, self.probabilities, k)

    def describe(self, top: int) -> str:
        return "\n".join(share_lines(self.top(top)))

    def cells(self, top: int, *, on_screen: bool = False) -> dict[str, str]:
        """label, confidence; with more than one, also label_2, confidence_2 and so on."""
        return ranked_cells(self.top(top), "label", "confidence", aligned_percent if on_screen else "{:.6f}".format)

    def to_json(self, top: int) -> dict[str, Any]:
        ranked = [{"label": label, "confidence": share} for label, share in self.top(top)]
        return {"label": self.label, "confidence": self.confidence, "top": ranked}

    @property
    def answer(self) -> str:
        return self.label

    def numbers(self) -> dict[str, float]:
        return dict(zip(self.classes, self.probabilities.tolist(), strict=True))

    def __repr__(self) -> str:
        others = ", ".join(f"{label} {percent(share)}" for label, share in self.top(SHOWN)[1:])
        return f"<Prediction: {self.label} {percent(self.confidence)}{f'; {others}' if others else ''}>"


def predictions(outputs: Tensor, target: Classes) -> list[Prediction]:
    """The predictions from a batch of logits."""
    shares = outputs.double().softmax(dim=1).cpu().numpy()
    return [Prediction(target.names, np.asarray(row)) for row in shares]
