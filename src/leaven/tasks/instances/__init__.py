"""Instance segmentation: every image has objects, each with a category, a box and a mask."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leaven.tasks.instances.target import MaskedAnnotations, MaskedCategories, read_target

if TYPE_CHECKING:
    from leaven.tasks.instances.code import (
        Detection,
        Evaluation,
        MaskAP,
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
    "Detection",
    "Evaluation",
    "MaskAP",
    "MaskedAnnotations",
    "MaskedCategories",
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


def __getattr__(name: str) -> Any:
    # The compiler imports the target next to this file, and must not import torch with it.
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.code"), name)
