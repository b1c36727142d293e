"""How well the model of a bundle does on labelled images.

Decides which images are measured and how their labels are matched to what the model predicts; what is counted, and how
it is reported, is decided by the task.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from leaven.bundle.golden import Steps
from leaven.bundle.inputs import Takes, as_image, as_taken, name_of
from leaven.bundle.manifest import Manifest
from leaven.formats.tables import is_table
from leaven.formats.target import BadTarget, Known, Target, values_of
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset, table
from leaven.runtime.data.splits import EMPTY, SplitIndices
from leaven.runtime.failures import Failure
from leaven.runtime.run.progress import Bar
from leaven.tasks.protocol import Evaluation

SplitName = Literal["train", "val", "test", "all"]


@dataclass(frozen=True)
class Measured:
    """Which labelled images to measure: the data, which split of it, and which columns a table has."""

    data: Any
    split: SplitName | None
    image: str
    columns: tuple[str, ...]  # none: those usual for the task
    root: str | os.PathLike[str] | None


def evaluate(
    model: nn.Module,
    steps: Steps,
    manifest: Manifest,
    measured: Measured,
    *,
    batch: int,
    workers: int | Literal["auto"],
    on_bad_file: Literal["stop", "skip"],
    shows_progress: bool,
) -> tuple[Evaluation, Callable[[int], Image.Image]]:
    """Run the model on every image of the data, and add up; also what opens the images, in the order of measuring."""
    items = _labelled(measured, manifest)
    values, split = items.values, _wanted(items, measured)
    assert values is not None
    gathered = Data(
        # the labels of the batches are indices, by which values and names are found
        replace(items, values=range(len(items)), load=_Load(items.load, manifest.takes)),
        SplitIndices(EMPTY, EMPTY, _chosen(items, measured, split)),
        train_transform=None,
        eval_transform=_Prepare(steps),
        batch_size=batch,
        workers=workers,
        on_bad_file=on_bad_file,
        seed=None,
    )
    tally, order = manifest.task.Tally(manifest.target), []
    title = "evaluating" if split == "all" else f"evaluating {split}"
    with closing(gathered), Bar(title, len(gathered.test), is_shown=shows_progress) as bar:
        for images, places in gathered.test.batches(0):
            indices = places.tolist()
            tally.add(_outputs(model, images), [values[i] for i in indices], [items.name(i) for i in indices])
            order += indices
            bar.advance(len(indices))
    if not order:
        raise Failure("none of the images can be read")
    return tally.result(gathered.skipped), lambda at: as_image(items.load(order[at]), "RGB")


def _outputs(model: nn.Module, images: Tensor) -> Tensor:
    first = next(model.parameters(), images)
    try:
        with torch.inference_mode():
            outputs: Tensor = model(images.to(first.device, first.dtype))
    except (RuntimeError, ValueError, AssertionError) as problem:
        shape = "×".join(map(str, images.shape))
        raise Failure(f"the model can't take a batch of {shape}: {type(problem).__name__}: {problem}") from problem
    return outputs.float().cpu()


@dataclass(frozen=True)
class _Load:
    """Loads images in the form in which the transforms take them."""

    load: Any
    takes: Takes

    def __call__(self, index: int) -> Any:
        return as_taken(self.load(index), self.takes)


@dataclass(frozen=True)
class _Prepare:
    """The transforms, ending in a plain tensor."""

    steps: Steps

    def __call__(self, taken: Any) -> Tensor:
        try:
            return torch.as_tensor(taken if self.steps is None else self.steps(taken)).as_subclass(Tensor)
        except Failure:
            raise
        except Exception as problem:  # custom transforms may raise anything
            raise Failure(f"the transforms can't prepare an image: {type(problem).__name__}: {problem}") from problem


# -- which images


def _labelled(measured: Measured, manifest: Manifest) -> Dataset:
    """The images with their values for the model's target, all of them known."""
    match measured.data:
        case Dataset():
            return _relabelled(measured.data, manifest.target)
        case str() | os.PathLike():
            return _from_path(Path(os.fspath(measured.data)), measured, manifest)
        case _:
            return _from_pairs(measured.data, manifest.target)


def _relabelled(items: Dataset, target: Target) -> Dataset:
    """Dataset with labels of their own, which are matched to the model's by what they mean."""
    if items.values is None:
        pairs = [items.load(index) for index in range(len(items))]
        given, load = [items.target.plain(value) for _, value in pairs], _Listed([image for image, _ in pairs])
        items = replace(items, load=load)
    else:
        given = [items.target.plain(value) for value in items.values]
    return replace(items, target=target, values=_values(target, given, items.name))


def _from_pairs(data: Any, target: Target) -> Dataset:
    pairs = list(data)
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise Failure("there is nothing to measure", "give a folder, a table, or pairs of an image and its label")
    given = [str(label) if isinstance(label, int) else label for _, label in pairs]
    listed = _Listed([image for image, _ in pairs])
    return Dataset(target, _values(target, given, listed.name), len(pairs), listed, listed.name, in_memory=True)


def _values(target: Target, given: Sequence[Any], name: Any) -> list[Any]:
    try:
        return values_of(target, given)
    except BadTarget as bad:
        raise Failure(f"{name(bad.at or 0)} {bad.fact}", bad.help) from None


@dataclass(frozen=True)
class _Listed:
    images: Sequence[Any]

    def __call__(self, index: int) -> Any:
        return self.images[index]

    def name(self, index: int) -> str:
        return name_of(self.images[index], index)


def _from_path(path: Path, measured: Measured, manifest: Manifest) -> Dataset:
    if path.is_dir():
        return manifest.task.folder(path, manifest.target, measured.columns)
    if not path.exists() or not is_table(path):
        raise Failure(f"{path} {'is neither a folder nor a table' if path.exists() else 'does not exist'}")
    columns = measured.columns or manifest.target.columns
    return table(path, image=measured.image, target=Known(manifest.target, columns), root=measured.root)


def _wanted(items: Dataset, measured: Measured) -> str:
    """The split that is asked for; by default test, else val, else everything."""
    return measured.split or next((known for known in ("test", "val", "train") if known in items.predefined), "all")


def _chosen(items: Dataset, measured: Measured, wanted: str) -> np.ndarray:
    """The indices of a split."""
    if wanted == "all":
        return np.arange(len(items))
    if wanted not in items.predefined:
        name = os.fspath(measured.data) if isinstance(measured.data, str | os.PathLike) else "the data"
        has = f"it has {', '.join(items.predefined)}" if items.predefined else "it is not split"
        raise Failure(f"{name} has no split {wanted}", has)
    return np.asarray(items.predefined[wanted], dtype=np.int64)
