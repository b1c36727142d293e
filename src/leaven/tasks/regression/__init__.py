"""Image regression: every image has one or several numbers."""

from typing import TYPE_CHECKING

from leaven.tasks import from_code
from leaven.tasks.regression.target import Numbers, Quantities, read_target

if TYPE_CHECKING:
    from leaven.tasks.regression.code import (
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
    "Mean",
    "Metrics",
    "Numbers",
    "Prediction",
    "Quantities",
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
