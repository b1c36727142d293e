"""Image classification: every image has one of several classes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leaven.tasks.classification.target import Classes, Label, read_target

if TYPE_CHECKING:
    from leaven.tasks.classification.code import (
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
        match_outputs,
        predictions,
        row,
        row_size,
    )

__all__ = [
    "Classes",
    "Evaluation",
    "Label",
    "Mean",
    "Metrics",
    "Prediction",
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


def __getattr__(name: str) -> Any:
    # The compiler imports the target next to this file, and must not import torch with it.
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.code"), name)
