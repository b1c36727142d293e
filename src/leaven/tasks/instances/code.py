"""The code of instance segmentation: that of detection, with masks."""

from dataclasses import dataclass
from typing import ClassVar

from leaven.tasks.detection import samples
from leaven.tasks.detection.code import (
    Detection,
    Evaluation,
    Mean,
    MeanAP,
    Metrics,
    Prediction,
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
from leaven.tasks.detection.metrics import MaskAP

__all__ = [
    "Detection",
    "Evaluation",
    "MaskAP",
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
    "row",
    "row_size",
]


@dataclass(frozen=True)
class Samples(samples.Samples):
    """Images with objects whose masks move along."""

    has_masks: ClassVar[bool] = True
