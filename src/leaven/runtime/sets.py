"""Data sets that come as Python objects: torchvision's by their official parts, and the user's own.

Decides what is known of such a set before it is read: its classes, its labels, its parts. Sets that can only be gone
through from the beginning are streams; how they are read is in `streams.py`.
"""

import inspect
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any
from urllib.error import URLError

import numpy as np
from PIL import Image
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset

from leaven.runtime.failures import BadFile, Failure
from leaven.runtime.items import Items

_LABELS = ("targets", "labels", "_labels", "y")
_PAIRS = ("samples", "_samples", "imgs", "_flat_character_images")  # of file and label
_CLASSES = ("classes", "categories")
_COUNTS = ("num_classes", "n_classes")


@dataclass(frozen=True)
class Stream:
    """Items that come one after another. `sources` holds one stream per part; where only train is there, it is all."""

    classes: tuple[str, ...]
    sources: Mapping[str, Any]
    is_divided: bool


# -- torchvision


def torchvision_set(
    make: Callable[..., Any],
    *,
    parts: Mapping[str, Mapping[str, Any]] | None = None,
    classes: int | None = None,
    **arguments: Any,
) -> Items:
    """One of torchvision's data sets; `parts` says by which arguments each official part is had."""
    if parts is None:
        takes_train = "train" in inspect.signature(make).parameters
        parts = {"train": {"train": True}, "test": {"train": False}} if takes_train else {}
    made = {part: _make(make, {**arguments, **chosen}) for part, chosen in parts.items()}
    return _joined(made or {"": _make(make, arguments)}, classes)


def _make(make: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    name = getattr(make, "__name__", "the data set")
    try:
        return make(**arguments)
    except ModuleNotFoundError as problem:
        raise Failure(f"{name} needs the package {problem.name}", f"pip install {problem.name}") from None
    except (OSError, RuntimeError, ValueError) as problem:
        place = _place_of_files(make, arguments.get("root", "."))
        help = f"put its files into {place}, or say with `root` where they are"
        if isinstance(problem, URLError | ConnectionError | TimeoutError) or "download" in str(problem).lower():
            fault = "could not be downloaded" if arguments.get("download") else f"is not in {arguments.get('root')}"
            raise Failure(f"{name} {fault}", help) from None
        raise Failure(f"{name} could not be opened: {problem}", help) from None


def _place_of_files(make: Any, root: str | os.PathLike[str]) -> str:
    """Where torchvision looks for a set's files, as far as its class tells, and how some of them are called."""
    from torchvision.datasets import MNIST  # takes a while to load

    if inspect.isclass(make) and issubclass(make, MNIST):
        folder, names = os.path.join(root, make.__name__, "raw"), [name for name, _ in getattr(make, "resources", ())]
        return folder + (f" ({', '.join(os.path.basename(name) for name in names)})" if names else "")
    base = getattr(make, "base_folder", None)
    if isinstance(base, str):
        return os.path.join(root, base)
    archive = getattr(make, "filename", None)
    return os.path.join(root, archive) if isinstance(archive, str) else str(root)


# -- the user's own


def own_set(source: Any, *, classes: Sequence[str] | int | None = None) -> Items | Stream:
    """A user's `Dataset` of (image, label) pairs, a mapping of such: {"train": …, "val": …}, or a LightningDataModule.

    Its classes are told by an attribute `classes` or `num_classes`, or by its labels. Labels are taken from `targets`
    or `labels` where these agree with the items; where nothing tells the classes, every item is loaded once.
    """
    if hasattr(source, "train_dataloader"):
        source = _of_lightning(source)
    parts = dict(source) if isinstance(source, Mapping) else {"": source}
    unknown = [part for part in parts if part not in ("", "train", "val", "test")]
    if not parts or unknown or ("" not in parts and "train" not in parts):
        raise Failure(f"the data set's parts are {', '.join(parts)}", "call them train, val and test")
    streams = [isinstance(dataset, IterableDataset) for dataset in parts.values()]
    if all(streams):
        return _streamed(parts, classes)
    if any(streams):
        raise Failure("some of the data set's parts can only be read from the beginning, others at any place")
    for part, dataset in parts.items():
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise Failure(
                f"{type(dataset).__name__}{f', the part {part},' if part else ''} is no data set",
                "it needs `__len__` and `__getitem__`, or to be an IterableDataset",
            )
    return _joined(parts, classes)


def _of_lightning(module: Any) -> dict[str, Any]:
    """The data sets of a LightningDataModule; how its loaders would make batches of them is the recipe's matter."""
    from lightning.fabric.utilities.exceptions import MisconfigurationException  # takes a while to load

    module.prepare_data()
    module.setup("fit")
    module.setup("test")
    parts = {}
    for part in ("train", "val", "test"):
        with suppress(MisconfigurationException, NotImplementedError):  # it has no such part
            parts[part] = getattr(module, f"{part}_dataloader")().dataset
    return parts


def _streamed(parts: Mapping[str, Any], classes: Sequence[str] | int | None) -> Stream:
    names = _class_names(list(parts.values()), classes)
    if names is None:
        kind = type(next(iter(parts.values()))).__name__
        raise Failure(f"nothing tells the classes of {kind}", "give it an attribute `classes` with their names")
    return Stream(names, {part or "train": dataset for part, dataset in parts.items()}, "" not in parts)


def _joined(parts: Mapping[str, Any], classes: Sequence[str] | int | None) -> Items:
    """Several data sets as one list of items."""
    datasets = list(parts.values())
    ends = tuple(accumulate((len(dataset) for dataset in datasets), initial=0))
    if ends[-1] == 0:
        raise Failure(f"{type(datasets[0]).__name__} has no items")
    given = {part: range(*between) for part, between in zip(parts, pairwise(ends), strict=True) if part}
    loader = _Joined(tuple(datasets), ends, ())
    names = _class_names(datasets, classes)
    labels = _known_labels(datasets)
    if labels is None and names is None:
        labels = [loader.pair(index)[1] for index in range(ends[-1])]
    if names is None:
        assert labels is not None
        names, labels = _named_by_labels(labels)
    in_memory = all(_is_in_memory(dataset) for dataset in datasets)
    loader = _Joined(tuple(datasets), ends, names)
    if labels is None:
        return Items(names, None, ends[-1], loader.pair, loader.name, given, in_memory)
    if not all(isinstance(label, int) and 0 <= label < len(names) for label in labels):
        labels = [class_number(label, names, loader.name(index)) for index, label in enumerate(labels)]
    return Items(names, labels, ends[-1], loader.picture, loader.name, given, in_memory)


def _is_in_memory(dataset: Any) -> bool:
    return isinstance(dataset, TensorDataset) or isinstance(getattr(dataset, "data", None), Tensor | np.ndarray)


@dataclass(frozen=True)
class _Joined:
    """Data sets one after another; `ends` begins with 0."""

    datasets: tuple[Any, ...]
    ends: tuple[int, ...]
    classes: tuple[str, ...]

    def place(self, index: int) -> tuple[Any, int]:
        which = bisect_right(self.ends, index) - 1
        return self.datasets[which], index - self.ends[which]

    def name(self, index: int) -> str:
        dataset, place = self.place(index)
        for attribute in _PAIRS:
            pairs = getattr(dataset, attribute, None)
            if isinstance(pairs, Sequence) and place < len(pairs) and isinstance(pairs[place][0], str):
                return str(pairs[place][0])
        return f"item {place} of {type(dataset).__name__}"

    def pair(self, index: int) -> tuple[Any, Any]:
        dataset, place = self.place(index)
        try:
            item = dataset[place]
        except (OSError, Image.DecompressionBombError) as problem:
            raise BadFile(self.name(index), str(problem)) from None
        image, label = as_pair(item, self.name(index))
        return image, class_number(label, self.classes, self.name(index)) if self.classes else as_plain(label)

    def picture(self, index: int) -> Any:
        dataset, place = self.place(index)
        try:
            return as_pair(dataset[place], self.name(index))[0]
        except (OSError, Image.DecompressionBombError) as problem:
            raise BadFile(self.name(index), str(problem)) from None


def as_pair(item: Any, name: str) -> tuple[Any, Any]:
    """An item as image and label."""
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    found = f"{len(item)} values" if isinstance(item, tuple | list) else f"a {type(item).__name__}"
    raise Failure(f"{name} is {found}, not a pair of image and label")


def class_number(label: Any, classes: Sequence[str], name: str) -> int:
    """The number of an item's class, which may be given by number or by name."""
    plain = as_plain(label)
    if isinstance(plain, str) and plain in classes:
        return classes.index(plain)
    if isinstance(plain, int) and 0 <= plain < len(classes):
        return plain
    raise Failure(f"{name} has the label {plain!r}, which does not exist: there are {len(classes)} classes")


def as_plain(label: Any) -> Any:
    """A label as Python's own int or str."""
    if hasattr(label, "item") and getattr(label, "size", None) is not None:
        label = label.item() if _is_single(label) else label
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _is_single(label: Any) -> bool:
    return label.numel() == 1 if isinstance(label, Tensor) else label.size == 1


def _class_names(datasets: Sequence[Any], told: Sequence[str] | int | None) -> tuple[str, ...] | None:
    """The names of the classes, where somebody tells them."""
    if told is not None:
        return tuple(str(number) for number in range(told)) if isinstance(told, int) else tuple(map(str, told))
    for dataset in datasets:
        while isinstance(dataset, Subset):
            dataset = dataset.dataset
        for attribute in _CLASSES:
            names = getattr(dataset, attribute, None)
            if isinstance(names, Sequence) and not isinstance(names, str) and len(names) > 1:
                # ImageNet's are tuples of words for the same thing
                return tuple(", ".join(name) if isinstance(name, tuple) else str(name) for name in names)
        for attribute in _COUNTS:
            count = getattr(dataset, attribute, None)
            if isinstance(count, int) and not isinstance(count, bool):
                return tuple(str(number) for number in range(count))
    return None


def _named_by_labels(labels: Sequence[Any]) -> tuple[tuple[str, ...], list[int]]:
    """The different labels as classes, in order, and the number of each label."""
    odd = next((label for label in labels if not isinstance(label, int | str)), None)
    if odd is not None:
        raise Failure(f"a label is a {type(odd).__name__}, not the number or the name of a class")
    distinct = set(labels)
    if len(distinct) < 2:
        raise Failure(f"all items have the same label, {labels[0]}")
    ordered = sorted(distinct, key=None if all(isinstance(label, int) for label in distinct) else str)
    number = {label: index for index, label in enumerate(ordered)}
    return tuple(map(str, ordered)), [number[label] for label in labels]


def _known_labels(datasets: Sequence[Any]) -> list[Any] | None:
    """All labels, where every data set keeps them at hand."""
    found: list[Any] = []
    for dataset in datasets:
        labels = _labels_of(dataset)
        if labels is None or not _agree(dataset, labels):
            return None
        found += labels
    return found


def _labels_of(dataset: Any) -> list[Any] | None:
    if isinstance(dataset, Subset):
        whole = _labels_of(dataset.dataset)
        return None if whole is None else [whole[index] for index in dataset.indices]
    if isinstance(dataset, TensorDataset):
        return _plain_list(dataset.tensors[-1], len(dataset))
    for attribute in _LABELS:
        labels = _plain_list(getattr(dataset, attribute, None), len(dataset))
        if labels is not None:
            return labels
    for attribute in _PAIRS:
        pairs = getattr(dataset, attribute, None)
        if isinstance(pairs, Sequence) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            labels = _plain_list([label for _, label in pairs], len(dataset))
            if labels is not None:
                return labels
    return None


def _plain_list(values: Any, length: int) -> list[Any] | None:
    """Values as a list of numbers or texts, if that is what they are."""
    if values is None or not hasattr(values, "__len__") or isinstance(values, str | Mapping) or len(values) != length:
        return None
    plain = [as_plain(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]
    return plain if all(isinstance(value, int | str) for value in plain) else None


def _agree(dataset: Any, labels: Sequence[Any]) -> bool:
    """Whether the labels kept at hand are those that items come with; a look at three items tells."""
    for index in {0, len(labels) // 2, len(labels) - 1} if labels else ():
        try:
            item = dataset[index]
        except (OSError, Image.DecompressionBombError):  # met again when it is read
            continue
        if not isinstance(item, tuple | list) or len(item) != 2 or as_plain(item[1]) != labels[index]:
            return False
    return True
