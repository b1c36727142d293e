"""Metrics of a single class, which a recipe names."""

from collections.abc import Sequence

from torch import Tensor
from torchmetrics.classification import MulticlassF1Score, MulticlassPrecision, MulticlassRecall, MulticlassStatScores

from leaven.runtime.failures import Failure


class OfOneClass(MulticlassStatScores):
    """A metric that computes a number for each class, of which one is kept."""

    def __init__(self, of: str, class_names: Sequence[str]) -> None:
        if of not in class_names:
            raise Failure(f"the data has no class `{of}`", f"it has {', '.join(class_names[:20])}")
        super().__init__(num_classes=len(class_names), average="none")
        self.at = list(class_names).index(of)

    def compute(self) -> Tensor:
        found: Tensor = super().compute()
        return found[self.at]


class F1Of(OfOneClass, MulticlassF1Score):
    """The F1 score of one class."""


class PrecisionOf(OfOneClass, MulticlassPrecision):
    """How often the model is right when it predicts one class."""


class RecallOf(OfOneClass, MulticlassRecall):
    """How many samples of one class the model finds."""
