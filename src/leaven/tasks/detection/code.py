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
    "Detection", "Evaluation", "Mean", "MeanAP", "Metrics", "Prediction", "Samples", "Tally", "describe", "evaluate",
    "exported", "fit_head", "folder", "predictions", "row", "row_size",
]  # fmt: skip


def exported(model: nn.Module, target: Categories) -> nn.Module:
    raise Failure(
        "a detector can't be exported: how many objects it finds depends on the image, which torch.export can't trace",
        "use the bundle itself, from Python (`leaven.load`) or by `leaven predict --json`",
    )


def folder(path: Path, target: Categories, columns: Sequence[str]) -> Dataset:
    """The annotated images of a folder in any of the formats, as far as the model knows their categories."""
    dataset = annotated_folder(path, target.parts)
    assert dataset.values is not None
    at = {name: number for number, name in enumerate(target.names)}
    known = [at.get(name) for name in dataset.target.names]  # the model's number of each category of the folder
    if unknown := [name for name in dataset.target.names if name not in at]:
        names = ", ".join(unknown[:3]) + ", …" * (len(unknown) > 3)
        fact = f"the model does not know the categories {names}: such objects are left out"
        warnings.warn(fact, Caution, stacklevel=2)
    values = []
    for objects in dataset.values:
        numbered = (item._replace(category=known[item.category]) for item in objects.each)
        values.append(objects._replace(each=tuple(item for item in numbered if item.category is not None)))
    return replace(dataset, target=target, values=values)


def describe(target: Any, inputs: str) -> Description:
    parts = f", and their {target.parts}" if target.parts else ""
    return Description(
        purpose=f"finds objects of {target.brief} in {inputs}{parts}",
        title="Categories",
        outputs=names_on_card(target.names),
        outputs_name="objects",
        example=".counts",
    )
