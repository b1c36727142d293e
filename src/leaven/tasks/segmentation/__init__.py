"""Semantic segmentation: every pixel of an image has one of several classes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    # The compiler imports the target next to this file, and must not import torch with it.
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.code"), name)
