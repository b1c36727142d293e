"""Multi-label image classification: every image has any number of labels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    # The compiler imports the target next to this file, and must not import torch with it.
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.code"), name)
