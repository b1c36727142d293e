"""Instance segmentation: every image has objects, each with a category, a box and a mask."""

from typing import TYPE_CHECKING

from leaven.tasks import from_code
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

__getattr__ = from_code(__name__, __all__)
