"""Datasets that are Python objects: torchvision's, and the user's own."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.data import ConcatDataset, IterableDataset, Subset

from leaven.formats.target import plain
from leaven.plain.failures import Failure
from leaven.plain.samples import Samples, TargetSamples, predefined_in
from leaven.runtime.data.torch_datasets import _known_labels, _of_lightning, as_plain
from leaven.tasks.classification.target import classes_told_by, in_order


def torchvision_dataset(
    make: Any,
    *,
    splits: Mapping[str, Mapping[str, Any]] | None = None,
    classes: int | None = None,
    **arguments: Any,
) -> Samples:
    """One of torchvision's datasets; `splits` gives the arguments that select each official split."""
    if splits is None:
        takes_train = "train" in inspect.signature(make).parameters
        splits = {"train": {"train": True}, "test": {"train": False}} if takes_train else {}
    made = {name: make(**arguments, **chosen) for name, chosen in splits.items()} or {"": make(**arguments)}
    return concatenated(made, None if classes is None else tuple(map(str, range(classes))))


def user_dataset(source: Any) -> Samples:
    """A dataset of (image, label) pairs, or several: {"train": …, "val": …}; or what returns them."""
    return concatenated(splits_of_user(source), None)


def user_targets(source: Any, *, target: Any) -> Samples:
    """A dataset of (image, target) pairs, or several: {"train": …, "val": …}; or what returns them."""
    splits = splits_of_user(source)
    datasets, predefined = list(splits.values()), predefined_in(splits)
    joined: Any = ConcatDataset(datasets)
    labels = _known_labels(datasets)
    labels = [as_plain(joined[at][1]) for at in range(len(joined))] if labels is None else labels
    known = next((found for one in datasets if (found := target.told(one)) is not None), None)
    known, values = (known, list(map(known.value, labels))) if known is not None else target.read(labels)
    return TargetSamples(known.names, Images(joined), values, predefined=predefined, target=known)


def splits_of_user(source: Any) -> dict[str, Any]:
    """The datasets of the user's for each split; a single one has an empty name."""
    made = source() if inspect.isclass(source) or inspect.isroutine(source) else source
    if hasattr(made, "train_dataloader"):
        made = _of_lightning(made)
    splits = dict(made) if isinstance(made, Mapping) else {"": made}
    if any(isinstance(dataset, IterableDataset) for dataset in splits.values()):
        raise Failure("a standalone program can't read an IterableDataset", "the normal program can")
    return splits


def concatenated(splits: Mapping[str, Any], classes: tuple[str, ...] | None) -> Samples:
    """Several datasets as one. The targets are None where only reading an image tells its class."""
    datasets, predefined = list(splits.values()), predefined_in(splits)
    joined: Any = ConcatDataset(datasets)
    classes = classes or next((found for one in datasets if (found := told_classes(one))), None)
    labels = _known_labels(datasets)
    if labels is None and classes is not None:
        return Samples(classes, Pairs(joined, classes), None, predefined=predefined)
    labels = [as_plain(joined[at][1]) for at in range(len(joined))] if labels is None else labels
    if classes is None:
        labels = [str(plain(label)) for label in labels]
        classes = tuple(in_order(set(labels)))
    numbers = [class_index(label, classes) for label in labels]
    return Samples(classes, Images(joined), numbers, predefined=predefined)


def told_classes(dataset: Any) -> tuple[str, ...] | None:
    """The classes that a dataset tells by an attribute."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return classes_told_by(dataset)


def class_index(label: Any, classes: Sequence[str]) -> int:
    """The index of a class that is given by its name or its index."""
    label = plain(as_plain(label))
    return classes.index(label) if isinstance(label, str) else int(label)


class Images:
    """The images of a dataset of pairs."""

    def __init__(self, pairs: Any) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.pairs[index][0]


class Pairs(Images):
    """Pairs of an image and the index of its class, which only reading the image tells."""

    def __init__(self, pairs: Any, classes: Sequence[str]) -> None:
        super().__init__(pairs)
        self.classes = classes

    def __getitem__(self, index: int) -> Any:
        image, label = self.pairs[index]
        return image, class_index(label, self.classes)
