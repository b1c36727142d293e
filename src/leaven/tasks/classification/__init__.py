"""Image classification: every image has one of several classes."""

from typing import TYPE_CHECKING

from leaven.tasks import from_code
from leaven.tasks.classification.target import Classes, Label, read_target

if TYPE_CHECKING:
    from leaven.tasks.classification.code import (
        Evaluation,
        F1Of,
        Mean,
        Metrics,
        PrecisionOf,
        Prediction,
        RecallOf,
        Samples,
        Tally,
        describe,
        evaluate,
        exported,
        folder,
        match_outputs,
        predictions,
        row,
        row_size,
    )

__all__ = [
    "Classes",
    "Evaluation",
    "F1Of",
    "Label",
    "Mean",
    "Metrics",
    "PrecisionOf",
    "Prediction",
    "RecallOf",
    "Samples",
    "Tally",
    "describe",
    "evaluate",
    "exported",
    "folder",
    "match_outputs",
    "predictions",
    "read_target",
    "row",
    "row_size",
]

__getattr__ = from_code(__name__, __all__)
