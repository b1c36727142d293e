"""Metrics of a single class, which a recipe names."""

from collections.abc import Sequence

from torch import Tensor
from torchmetrics.classification import MulticlassF1Score

from leaven.runtime.failures import Failure


class F1Of(MulticlassF1Score):
    """The F1 score of one class."""

    def __init__(self, of: str, class_names: Sequence[str]) -> None:
        if of not in class_names:
            raise Failure(f"the data has no class `{of}`", f"it has {', '.join(class_names[:20])}")
        super().__init__(num_classes=len(class_names), average="none")
        self.at = list(class_names).index(of)

    def compute(self) -> Tensor:
        found: Tensor = super().compute()
        return found[self.at]
