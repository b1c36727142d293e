"""How well the model of a bundle does on labelled images.

Decides which images are measured and how their labels are matched to what the model predicts; what is counted, and how
it is reported, is decided by the task.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image
from torch import Tensor, nn
from torch.utils import _pytree

from leaven.bundle.asking import UNFIT, ask, prepare
from leaven.bundle.golden import Steps
from leaven.bundle.inputs import Takes, as_image, as_taken, name_of
from leaven.bundle.manifest import Manifest
from leaven.formats.tables import is_table, split_tables
from leaven.formats.target import BadTarget, Known, Target, values_of
from leaven.formats.texts import Text
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset, table, text_folder
from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.data.places import Place
from leaven.runtime.data.samples import Labelled, Samples
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
    text: tuple[str, ...]  # none: those of the training
    columns: tuple[str, ...]  # none: those usual for the task
    root: str | os.PathLike[str] | None
    on_bad_file: Literal["stop", "skip"] = "stop"


def evaluate(
    model: nn.Module,
    steps: Steps,
    manifest: Manifest,
    measured: Measured,
    *,
    batch: int,
    workers: int | Literal["auto"],
    shows_progress: bool,
) -> tuple[Evaluation, Callable[[int], Image.Image | Text]]:
    """Run the model on every image of the data, and add up; also what opens the images, in the order of measuring."""
    items = _labelled(measured, manifest)
    values, split = items.values, _wanted(items, measured)
    assert values is not None
    task = manifest.task
    samples = task.Samples()
    gathered = Data(
        # the labels of the batches are indices, by which values and names are found
        replace(items, values=range(len(items)), load=_Load(items.load, manifest.takes)),
        SplitIndices(EMPTY, EMPTY, _chosen(items, measured, split)),
        train_transform=None,
        eval_transform=steps if hasattr(steps, "encoded") else _Prepare(steps, samples),
        batch_size=batch,
        workers=workers,
        on_bad_file=measured.on_bad_file,
        seed=None,
        samples=_Placed(samples),
    )
    tally, order = task.Tally(manifest.target), []
    title = "evaluating" if split == "all" else f"evaluating {split}"
    with closing(gathered), Bar(title, len(gathered.test), is_shown=shows_progress) as bar:
        for images, (indices, places) in gathered.test.batches(0):
            outputs = _outputs(model, images, places, samples)
            tally.add(outputs, [values[i] for i in indices], [items.name(i) for i in indices])
            order += indices
            bar.advance(len(indices))
    noun = manifest.takes.noun
    if not order:
        raise Failure(f"none of the {noun}s can be read")
    found: Any = tally.result(gathered.skipped)
    if noun == "text":
        return replace(found, inputs="texts"), lambda at: items.load(order[at])
    return found, lambda at: as_image(items.load(order[at]), "RGB")


def _outputs(model: nn.Module, images: Sequence[Any], places: Sequence[Place], samples: Samples) -> Any:
    try:
        outputs = ask(model, images, places, samples)
    except UNFIT as problem:
        shape = "×".join(map(str, (len(images), *first_tensor(images[0]).shape)))
        raise Failure(f"the model can't take a batch of {shape}: {type(problem).__name__}: {problem}") from problem
    return _pytree.tree_map_only(Tensor, _in_memory, outputs)


def _in_memory(value: Tensor) -> Tensor:
    return value.float().cpu() if value.is_floating_point() else value.cpu()


@dataclass(frozen=True)
class _Placed(Labelled):
    """Batches of images with their indices and places."""

    samples: Samples

    def given(self, image: Any, value: Any) -> tuple[Any, ...]:
        return image, None

    def inputs(self, images: Sequence[Any]) -> Any:
        self.samples.inputs(images)  # a failure where they can't be in one batch
        return images

    def targets(self, moved: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> Any:
        return _Batch(list(values), [place for (place,) in moved])


class _Batch(NamedTuple):
    indices: list[int]
    places: list[Place]


@dataclass(frozen=True)
class _Load:
    """Loads images in the form in which the transforms take them."""

    load: Any
    takes: Takes

    def __call__(self, index: int) -> Any:
        return as_taken(self.load(index), self.takes)


@dataclass(frozen=True)
class _Prepare:
    """The transforms, ending in a plain tensor and its place in the image."""

    steps: Steps
    samples: Samples

    def __call__(self, taken: Any, _: None) -> tuple[Tensor, Place]:
        try:
            return prepare(taken, self.steps, self.samples)
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
    is_text = manifest.takes.kind == "text"
    if path.is_dir() and is_text and not split_tables(path):
        return _relabelled(text_folder(path), manifest.target)
    is_annotations = path.suffix == ".json" and path.is_file()
    if (path.is_dir() or is_annotations) and not is_text:
        return manifest.task.folder(path, manifest.target, measured.columns)
    if not path.exists() or not (is_table(path) or path.is_dir()):
        raise Failure(f"{path} {'is neither a folder nor a table' if path.exists() else 'does not exist'}")
    columns = measured.columns or manifest.target.columns
    if is_text:
        texts = measured.text or manifest.takes.columns or ("text",)
        return table(
            path,
            text=texts[0] if len(texts) == 1 else texts,
            target=Known(manifest.target, columns),
            on_bad_file=measured.on_bad_file,
        )
    return table(
        path,
        image=measured.image,
        target=Known(manifest.target, columns),
        root=measured.root,
        on_bad_file=measured.on_bad_file,
    )


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
