"""The code of detection: what needs torch."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from leaven.runtime.data.annotated import annotated_folder
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.failures import Caution, Failure
from leaven.tasks.detection.evaluation import Evaluation, Tally
from leaven.tasks.detection.heads import fit_head, row, row_size
from leaven.tasks.detection.metrics import MeanAP, evaluate
from leaven.tasks.detection.prediction import Detection, Prediction, predictions
from leaven.tasks.detection.samples import Samples
from leaven.tasks.detection.target import Categories
from leaven.tasks.protocol import Description
from leaven.tasks.reports import names_on_card
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


def exported(model: nn.Module, target: Categories) -> nn.Module:
    raise Failure(
        "a detector can't be exported: how many objects it finds depends on the image, which torch.export can't trace",
        "use the bundle itself, from Python (`leaven.load`) or by `leaven predict --json`",
    )


def folder(path: Path, target: Categories, columns: Sequence[str]) -> Dataset:
    """The annotated images of a folder in any of the formats, as far as the model knows their categories."""
    found = annotated_folder(path, has_masks=target.has_masks)
    assert found.values is not None
    at = {name: number for number, name in enumerate(target.names)}
    known = [at.get(name) for name in found.target.names]
    unknown = [name for name, number in zip(found.target.names, known, strict=True) if number is None]
    if unknown:
        told = ", ".join(unknown[:3]) + ", …" * (len(unknown) > 3)
        warnings.warn(
            f"the model does not know the categories {told}: such objects are left out", Caution, stacklevel=2
        )
    return replace(found, target=target, values=[_renumbered(value, known) for value in found.values])


def _renumbered(objects: Any, known: Sequence[int | None]) -> Any:
    """The objects with the numbers that the model has for their categories, without those that it does not know."""
    pairs = [(one, known[one.category]) for one in objects.each]
    return objects._replace(each=tuple(one._replace(category=at) for one, at in pairs if at is not None))


def describe(target: Any, inputs: str) -> Description:
    masks = ", and their masks" if target.has_masks else ""
    return Description(
        purpose=f"finds objects of {target.brief} in {inputs}{masks}",
        title="Categories",
        outputs=names_on_card(target.names),
        outputs_name="objects",
        example=".counts",
    )
