"""The code of detection: what needs torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from leaven.runtime.data.annotated import annotated_folder
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.failures import Failure
from leaven.tasks.detection.evaluation import Evaluation, Tally
from leaven.tasks.detection.heads import fit_head, row, row_size
from leaven.tasks.detection.metrics import MeanAP, evaluate
from leaven.tasks.detection.prediction import Detection, Prediction, predictions
from leaven.tasks.detection.samples import Samples
from leaven.tasks.detection.target import Categories
from leaven.tasks.protocol import Description
from leaven.tasks.scoring import Mean, Metrics

__all__ = [
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
    "row",
    "row_size",
]

MOST_LISTED = 100


def exported(model: nn.Module, target: Categories) -> nn.Module:
    raise Failure(
        "a detector can't be exported: how many objects it finds depends on the image, which torch.export can't trace",
        "use the bundle itself, from Python (`leaven.load`) or by `leaven predict --json`",
    )


def folder(path: Path, target: Categories, columns: Sequence[str]) -> Dataset:
    """The annotated images of a folder in any of the formats, as far as the model knows their categories."""
    return annotated_folder(path, has_masks=target.has_masks)


def describe(target: Any) -> Description:
    names = target.names
    more = [f"and {len(names) - MOST_LISTED} more, listed in `bundle.json`"] if len(names) > MOST_LISTED else []
    masks = ", and their masks" if target.has_masks else ""
    return Description(
        purpose=f"finds objects of {target.brief} in images{masks}",
        title="Categories",
        outputs=", ".join([*names[:MOST_LISTED], *more]),
        outputs_name="objects",
        example=".counts",
    )
