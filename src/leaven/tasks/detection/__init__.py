"""Detection: every image has objects, each with a category and a box."""

from typing import TYPE_CHECKING

from leaven.tasks import from_code
from leaven.tasks.detection.target import Annotations, Categories, read_target

if TYPE_CHECKING:
    from leaven.tasks.detection.code import (
        Detection,
        Evaluation,
        Mean,
        MeanAP,
        Metrics,
        Prediction,
        Samples,
        Tally,
        describe,
        evaluate,
        exported,
        fit_head,
        folder,
        predictions,
        row,
        row_size,
    )

__all__ = [
    "Annotations",
    "Categories",
    "Detection",
    "Evaluation",
    "Mean",
    "MeanAP",
    "Metrics",
    "Prediction",
    "Samples",
    "Tally",
    "describe",
    "evaluate",
    "exported",
    "fit_head",
    "folder",
    "predictions",
    "read_target",
    "row",
    "row_size",
]

__getattr__ = from_code(__name__, __all__)
