"""Semantic segmentation: every pixel of an image has one of several classes."""

from typing import TYPE_CHECKING

from leaven.tasks import from_code
from leaven.tasks.segmentation.target import MaskClasses, MaskFile, MaskReader, read_target

if TYPE_CHECKING:
    from leaven.tasks.segmentation.code import (
        Evaluation,
        Mean,
        Metrics,
        PixelLoss,
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
    "Evaluation",
    "MaskClasses",
    "MaskFile",
    "MaskReader",
    "Mean",
    "Metrics",
    "PixelLoss",
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
