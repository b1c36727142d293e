"""What a model says about one picture."""

from dataclasses import dataclass

import numpy as np

MOST_SHOWN = 3


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The probability of every class; they add up to one."""

    classes: tuple[str, ...]
    probabilities: np.ndarray

    @property
    def label(self) -> str:
        """The class that is most likely."""
        return self.classes[int(self.probabilities.argmax())]

    @property
    def confidence(self) -> float:
        """How likely that class is, from 0 to 1."""
        return float(self.probabilities.max())

    def top(self, k: int = 5) -> list[tuple[str, float]]:
        """The k most likely classes with their probabilities, the likeliest first."""
        order = np.argsort(-self.probabilities, kind="stable")[:k]
        return [(self.classes[index], float(self.probabilities[index])) for index in order]

    def __repr__(self) -> str:
        others = ", ".join(f"{label} {percent(share)}" for label, share in self.top(MOST_SHOWN)[1:])
        return f"<Prediction: {self.label} {percent(self.confidence)}{f'; {others}' if others else ''}>"


def percent(share: float) -> str:
    """`97.1 %`."""
    return f"{100 * share:.1f} %"
