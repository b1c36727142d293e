"""The code of classification: what needs torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from leaven.formats.class_names import Mismatch, match, named_outputs, published_classes
from leaven.formats.image_folder import PART_NAMES, image_files, sub_folders
from leaven.formats.target import BadTarget, each_sample
from leaven.runtime.data.datasets import Dataset, ImageFiles
from leaven.runtime.data.samples import Samples
from leaven.runtime.data.torch_datasets import StreamDataset
from leaven.runtime.failures import Failure
from leaven.tasks.classification.evaluation import Evaluation, Tally
from leaven.tasks.classification.one_class import F1Of, PrecisionOf, RecallOf
from leaven.tasks.classification.prediction import Prediction, predictions
from leaven.tasks.classification.target import Classes, listed
from leaven.tasks.guesses import MostFrequentClass
from leaven.tasks.protocol import Description
from leaven.tasks.reports import names_on_card
from leaven.tasks.rows import exported, output_score, row, row_size
from leaven.tasks.scoring import Evaluate, Judgement, Mean, Metrics

__all__ = [
    "Evaluation", "F1Of", "Mean", "Metrics", "PrecisionOf", "Prediction", "RecallOf", "Samples", "Tally", "describe",
    "evaluate", "exported", "folder", "match_outputs", "output_score", "predictions", "row", "row_size",
]  # fmt: skip


evaluate = Evaluate(
    lambda target: Judgement(MostFrequentClass(target.names), tally=partial(Tally, target)), predictions
)  # {"val.loss": 0.2, "val.accuracy": 0.95}


def match_outputs(dataset: Dataset | StreamDataset, classes: str | Sequence[str]) -> Dataset | StreamDataset:
    """The dataset for a model with a published head: labels are outputs of the model, and named as these are.

    The classes of the data are matched by wnid or name with those of a set such as "imagenet-1k", or with the names of
    the outputs.
    """
    is_set = isinstance(classes, str)
    published = published_classes(classes) if isinstance(classes, str) else named_outputs(classes)
    outputs = match(dataset.target.names, published)
    if isinstance(outputs, Mismatch):
        raise Failure(outputs.fact, outputs.help)
    target = Classes(published.names, dataset.target.columns[0], published.wnids if is_set else ())
    if isinstance(dataset, StreamDataset):
        if outputs != tuple(range(len(published.names))):
            raise Failure("a stream with `head=keep` needs all classes of the model, in its order")
        return replace(dataset, target=target)
    if dataset.values is None:
        return replace(dataset, target=target, load=_Matched(dataset.load, outputs))
    return replace(dataset, target=target, values=[outputs[value] for value in dataset.values])


@dataclass(frozen=True)
class _Matched:
    """Loads pairs of image and class, the class as an output of the model."""

    load: Callable[[int], Any]
    outputs: Sequence[int]

    def __call__(self, index: int) -> tuple[Any, int]:
        image, value = self.load(index)
        return image, self.outputs[value]


def folder(path: Path, target: Classes, columns: Sequence[str]) -> Dataset:
    """The images of a folder with one sub-folder per class, or of its splits, of which train need not exist."""
    known = any(map(target.knows, sub_folders(path)))
    tops = {"": path} if known else _split_folders(path) or {"": path}
    files: list[str] = []
    names: list[str] = []
    splits: dict[str, range] = {}
    for split, top in tops.items():
        listed_files = [(file, name) for name in sub_folders(top) for file in sorted(image_files(top / name))]
        splits |= {split: range(len(files), len(files) + len(listed_files))} if split else {}
        files += [file for file, _ in listed_files]
        names += [name for _, name in listed_files]
    if not files:
        raise Failure(f"{path} has no class folders with images in them", f"the classes are: {listed(target.names)}")
    try:
        values = each_sample(target.value, names)
    except BadTarget as bad:
        raise Failure(f"{files[bad.at or 0]} {bad.fact}", bad.help) from None
    return Dataset(target, values, len(files), ImageFiles(files), files.__getitem__, splits)


def _split_folders(path: Path) -> dict[str, Path]:
    return {
        split: path / top
        for split, names in PART_NAMES.items()
        for top in sub_folders(path)
        if top.lower() in names and sub_folders(path / top)
    }


def describe(target: Classes, inputs: str) -> Description:
    return Description(
        purpose=f"classifies {inputs} into {len(target.names)} classes",
        title="Classes",
        outputs=names_on_card(target.names),
        example=".top(3)",
    )
