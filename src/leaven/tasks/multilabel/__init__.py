"""Multi-label image classification: every image has any number of labels."""

from typing import TYPE_CHECKING

from leaven.tasks import from_code
from leaven.tasks.multilabel.target import Labels, LabelSet, read_target

if TYPE_CHECKING:
    from leaven.tasks.multilabel.code import (
        Evaluation,
        Mean,
        Metrics,
        Prediction,
        Samples,
        Tally,
        describe,
        evaluate,
        exported,
        folder,
        predictions,
        row,
        row_size,
    )

__all__ = [
    "Evaluation",
    "LabelSet",
    "Labels",
    "Mean",
    "Metrics",
    "Prediction",
    "Samples",
    "Tally",
    "describe",
    "evaluate",
    "exported",
    "folder",
    "predictions",
    "read_target",
    "row",
    "row_size",
]

__getattr__ = from_code(__name__, __all__)
