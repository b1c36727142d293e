"""The code of detection: what needs torch."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.ops import box_iou

from leaven.runtime.data.annotated import annotated_folder
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.failures import Caution, Failure
from leaven.tasks.detection.evaluation import Evaluation, Tally
from leaven.tasks.detection.heads import fit_head, row, row_size
from leaven.tasks.detection.metrics import MeanAP, evaluate
from leaven.tasks.detection.prediction import Detection, Prediction, predictions
from leaven.tasks.detection.samples import FIRST, Samples
from leaven.tasks.detection.target import Categories
from leaven.tasks.protocol import Description
from leaven.tasks.reports import names_on_card
from leaven.tasks.scored import OutputScore, number_of
from leaven.tasks.scoring import Mean, Metrics

__all__ = [
    "Detection", "Evaluation", "Mean", "MeanAP", "Metrics", "Prediction", "Samples", "Tally", "describe", "evaluate",
    "exported", "fit_head", "folder", "output_score", "predictions", "row", "row_size",
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


def output_score(outputs: Sequence[Mapping[str, Tensor]], target: Categories, wanted: str | None) -> OutputScore:
    """The score of one box: `cat` is the most certain cat, `cat 2` the next; by default the most certain object."""
    labels = outputs[0]["labels"]
    category, number = _wanted_box(wanted, target)
    found = torch.arange(len(labels)) if category is None else (labels == category + FIRST).nonzero().flatten().cpu()
    ranked = found[outputs[0]["scores"].detach().cpu()[found].argsort(descending=True)]
    if number > len(ranked):
        raise Failure(f"the model finds {f'no {wanted}' if wanted is not None else 'no object'} in the image")
    at = ranked[number - 1]
    label = int(labels[at])
    name = target.names[label - FIRST] + (f" {number}" if number > 1 else "")
    return OutputScore(name, partial(_box_scores, label, outputs[0]["boxes"][at].detach()))


def _wanted_box(wanted: str | None, target: Categories) -> tuple[int | None, int]:
    """The category of a box, and its place among those of this category."""
    if wanted is None or wanted in target.names:
        return (None if wanted is None else target.names.index(wanted)), 1
    name, _, number = wanted.rpartition(" ")
    is_numbered = number.isdecimal() and int(number) > 0
    return number_of(name if is_numbered else wanted, target.names), int(number) if is_numbered else 1


def _box_scores(label: int, box: Tensor, outputs: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """For each image the score of the box of this category that overlaps most, less where it overlaps less."""
    scores = []
    for one in outputs:
        overlap = box_iou(one["boxes"].detach(), box[None])[:, 0] * (one["labels"] == label)
        products = one["scores"] * overlap
        scores.append(products.amax() if len(products) else products.sum())
    return torch.stack(scores)
