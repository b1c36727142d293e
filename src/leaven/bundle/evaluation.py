"""How well the model of a bundle does on labelled images or texts.

Decides which samples are measured. How their labels are matched to what the model predicts is decided in `labels.py`;
what is counted, and how it is reported, by the task.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree

from leaven.bundle.asking import UNFIT, ask, prepare
from leaven.bundle.golden import Steps
from leaven.bundle.inputs import InputKind
from leaven.bundle.inputs.protocol import Measured
from leaven.bundle.labels import from_pairs, relabelled
from leaven.bundle.manifest import Manifest
from leaven.formats.target import Known
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.data.places import Place
from leaven.runtime.data.samples import Samples
from leaven.runtime.data.splits import EMPTY, SplitIndices
from leaven.runtime.failures import Failure
from leaven.runtime.model.head_inputs import head_inputs
from leaven.runtime.run.progress import Bar

if TYPE_CHECKING:
    from leaven.bundle.bundle import Bundle


@dataclass(frozen=True)
class Evaluated:
    """How well a model does on some samples of a dataset; their indices are in the order of measuring.

    `brightness` is the mean of each image as the model gets it, and `features` are what its head gets; None where there
    are none.
    """

    evaluation: Any
    items: Dataset
    indices: list[int]
    brightness: np.ndarray | None
    features: np.ndarray | None


def evaluate(
    bundle: "Bundle",
    measured: Measured,
    *,
    batch: int,
    workers: int | Literal["auto"],
    shows_progress: bool,
    keeps_features: bool = False,
) -> Evaluated:
    """Run the model on every sample of the data, and add up."""
    manifest, steps = bundle.manifest, bundle.preprocess
    items = _labelled(measured, manifest)
    values = items.values
    assert values is not None
    # by default test, else val, else everything
    split: str = measured.split or next(
        (known for known in ("test", "val", "train") if known in items.predefined), "all"
    )
    task = manifest.task
    samples = task.Samples()
    gathered = Data(
        # the labels of the batches are indices, by which values and names are found
        replace(items, values=range(len(items)), load=partial(_loaded, items.load, manifest.takes)),
        SplitIndices(EMPTY, EMPTY, _chosen(items, measured, split)),
        train_transform=None,
        eval_transform=steps if hasattr(steps, "encoded") else partial(_prepared, steps, samples),
        batch_size=batch,
        workers=workers,
        on_bad_file=measured.on_bad_file,
        seed=None,
        samples=_Placed(samples),
    )
    tally, order = task.Tally(manifest.target), list[int]()
    bright, features = list[Tensor](), list[Tensor | None]()
    title = "evaluating" if split == "all" else f"evaluating {split}"
    with (
        closing(gathered),
        head_inputs(bundle.model) if keeps_features else nullcontext() as heads,
        Bar(title, len(gathered.test), is_shown=shows_progress) as bar,
    ):
        for inputs, (indices, places) in gathered.test.batches(0):
            outputs = _outputs(bundle.model, inputs, places, samples)
            tally.add(outputs, [values[i] for i in indices], [items.name(i) for i in indices])
            order += indices
            bright += [
                image.mean()[None] for image in inputs if isinstance(image, Tensor) and image.is_floating_point()
            ]
            features.append(None if heads is None else heads.take(outputs))
            bar.advance(len(indices))
    noun = manifest.takes.noun
    if not order:
        raise Failure(f"none of the {noun}s can be read")
    result: Any = tally.result(gathered.skipped)
    if hasattr(result, "inputs"):  # of a task whose report names them
        result = replace(result, inputs=f"{noun}s")
    is_all = len(bright) == len(order)
    found = [one for one in features if one is not None]
    return Evaluated(
        result,
        items,
        order,
        torch.cat(bright).float().numpy() if is_all else None,
        torch.cat(found).numpy() if len(found) == len(features) else None,
    )


def _outputs(model: nn.Module, inputs: Sequence[Any], places: Sequence[Place], samples: Samples) -> Any:
    try:
        outputs = ask(model, inputs, places, samples)
    except UNFIT as problem:
        shape = "×".join(map(str, (len(inputs), *first_tensor(inputs[0]).shape)))
        raise Failure(f"the model can't take a batch of {shape}: {type(problem).__name__}: {problem}") from problem
    return _pytree.tree_map_only(
        Tensor, lambda value: (value.float() if value.is_floating_point() else value).cpu(), outputs
    )


@dataclass(frozen=True)
class _Placed(Samples):
    """Batches of inputs with their indices and places."""

    samples: Samples

    def given(self, image: Any, value: Any) -> tuple[Any, ...]:
        return image, None

    def inputs(self, images: Sequence[Any]) -> Any:
        self.samples.inputs(images)  # a failure where they can't be in one batch
        return images

    def targets(self, moved: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> Any:
        return list(values), [place for (place,) in moved]


def _loaded(load: Callable[[int], Any], takes: InputKind, index: int) -> Any:
    """An input in the form in which the transforms take it."""
    return takes.converted(load(index))


def _prepared(steps: Steps, samples: Samples, taken: Any, _: None) -> tuple[Tensor, Place]:
    """An input after the transforms, a plain tensor, and its place in the image."""
    try:
        return prepare(taken, steps, samples)
    except Failure:
        raise
    except Exception as problem:  # custom transforms may raise anything
        raise Failure(f"the transforms can't prepare an input: {type(problem).__name__}: {problem}") from problem


# -- which samples


def _labelled(measured: Measured, manifest: Manifest) -> Dataset:
    """The samples with their values for the model's target, all of them known."""
    takes, target = manifest.takes, manifest.target
    match measured.data:
        case Dataset():
            return relabelled(measured.data, target, takes.noun)
        case str() | os.PathLike():
            path = Path(os.fspath(measured.data))
        case _:
            return from_pairs(measured.data, target, takes.noun)
    if (dataset := takes.folder(path, measured, manifest.task, target)) is not None:
        return dataset
    if not path.exists() or not (takes.is_table(path) or path.is_dir()):
        raise Failure(f"{path} {'is neither a folder nor a table' if path.exists() else 'does not exist'}")
    return takes.table(path, measured, Known(target, measured.columns or target.columns))


def _chosen(items: Dataset, measured: Measured, wanted: str) -> np.ndarray:
    """The indices of a split."""
    if wanted == "all":
        return np.arange(len(items))
    if wanted not in items.predefined:
        name = os.fspath(measured.data) if isinstance(measured.data, str | os.PathLike) else "the data"
        has = f"it has {', '.join(items.predefined)}" if items.predefined else "it is not split"
        raise Failure(f"{name} has no split {wanted}", has)
    return np.asarray(items.predefined[wanted], dtype=np.int64)
