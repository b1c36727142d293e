"""Datasets that come as Python objects: torchvision's with their official splits, and the user's own.

Decides what is known of such a dataset before it is read: its target, labels and splits. Iterable datasets are
streams; how they are read is in `streams.py`.
"""

import inspect
import os
import warnings
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any
from urllib.error import URLError

import numpy as np
from PIL import Image
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset

from leaven.formats.image_folder import looks_split
from leaven.formats.target import BadTarget, Known, Target, TargetReader
from leaven.runtime.data.datasets import LABEL, Dataset, content_digest, file_digests
from leaven.runtime.downloads import rank_zero_first
from leaven.runtime.failures import BadFile, BadSample, Caution, Failure
from leaven.tasks.classification.target import Label
from leaven.terminal import status_line

_LABELS = ("targets", "labels", "_labels", "y")
_IMAGE_FILES = ("_image_files", "_images", "images")  # of files alone
_PAIRS = ("samples", "_samples", "imgs", "_flat_character_images")  # of file and label


@dataclass(frozen=True)
class StreamDataset:
    """Samples that can only be iterated over. `sources` holds one stream per split; without `has_splits`, `train` is
    the whole dataset."""

    target: Target
    sources: Mapping[str, Any]
    has_splits: bool


# -- torchvision


@status_line.doing("reading the data…")
def torchvision_dataset(
    make: Callable[..., Any],
    *,
    splits: Mapping[str, Mapping[str, Any]] | None = None,
    classes: int | None = None,
    **arguments: Any,
) -> Dataset:
    """One of torchvision's datasets; `splits` gives the arguments that select each official split."""
    if splits is None:
        takes_train = "train" in inspect.signature(make).parameters
        splits = {"train": {"train": True}, "test": {"train": False}} if takes_train else {}
    with rank_zero_first():
        made = {split: made_by(make, {**arguments, **chosen}) for split, chosen in splits.items()}
        made = made or {"": made_by(make, arguments)}
    target = _target_of(list(made.values()), Label())
    is_named = classes is None or (target is not None and len(target.names) == classes)
    dataset = _concatenated(made, Label(names=None if is_named else tuple(map(str, range(classes or 0)))))
    datasets = tuple(made.values())
    return replace(dataset, digests=_Concatenated(datasets).digests) if all(map(_is_identified, datasets)) else dataset


def made_by(make: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """A dataset of torchvision's; a failure says where it looks for files that are not there."""
    name = getattr(make, "__name__", "the dataset")
    try:
        return make(**arguments)
    except ModuleNotFoundError as problem:
        raise Failure(f"{name} needs the package {problem.name}", f"pip install {problem.name}") from None
    except (OSError, RuntimeError, ValueError) as problem:
        place = _expected_files(make, arguments.get("root", "."))
        help = f"put its files into {place}, or set `root` to the folder that has them"
        if isinstance(problem, URLError | ConnectionError | TimeoutError) or "download" in str(problem).lower():
            fault = "could not be downloaded" if arguments.get("download") else f"is not in {arguments.get('root')}"
            raise Failure(f"{name} {fault}", help) from None
        raise Failure(f"{name} could not be opened: {problem}", help) from None


def _expected_files(make: Any, root: str | os.PathLike[str]) -> str:
    """Where torchvision looks for a dataset's files, and the names of some of them, as far as its class tells."""
    from torchvision.datasets import MNIST  # takes a while to load

    if inspect.isclass(make) and issubclass(make, MNIST):
        folder, names = os.path.join(root, make.__name__, "raw"), [name for name, _ in getattr(make, "resources", ())]
        return folder + (f" ({', '.join(os.path.basename(name) for name in names)})" if names else "")
    base = getattr(make, "base_folder", None)
    if isinstance(base, str):
        return os.path.join(root, base)
    archive = getattr(make, "filename", None)
    return os.path.join(root, archive) if isinstance(archive, str) else str(root)


def _is_identified(dataset: Any) -> bool:
    """Whether it is known what the image of a sample depends on: on pixels in memory, or on a file."""
    is_changed = any(getattr(dataset, name, None) is not None for name in ("transform", "transforms"))
    code = [type(dataset), *filter(None, [getattr(dataset, "loader", None)])]
    is_theirs = all(each.__module__.partition(".")[0] == "torchvision" for each in code)
    return is_theirs and not is_changed and (_pixels(dataset) is not None or _files(dataset) is not None)


def _pixels(dataset: Any) -> np.ndarray | None:
    """The images of a dataset that has all of them in one array."""
    data = getattr(dataset, "data", None)
    is_array = isinstance(data, Tensor | np.ndarray) and len(data) == len(dataset)
    return np.asarray(data) if is_array else None


def _files(dataset: Any) -> list[str] | None:
    """The files that the images of a dataset are in, one each."""
    for attribute in (*_PAIRS, *_IMAGE_FILES):
        values = getattr(dataset, attribute, None)
        if isinstance(values, Sequence) and len(values) == len(dataset):
            files = [each[0] if attribute in _PAIRS else each for each in values]
            if all(isinstance(file, str | os.PathLike) for file in files) and all(map(os.path.isfile, files[::-1][:2])):
                return list(map(os.fspath, files))
    return None


def _digests(dataset: Any, indices: list[int]) -> list[bytes]:
    """Identify some images of one of torchvision's datasets."""
    kind = type(dataset).__qualname__.encode()  # which decides what becomes of pixels or files
    pixels, files = _pixels(dataset), _files(dataset)
    if pixels is not None:
        return [content_digest(kind + pixels[index].tobytes()) for index in indices]
    assert files is not None
    return [content_digest(kind + each) for each in file_digests([files[index] for index in indices])]


# -- the user's own


@status_line.doing("reading the data…")
def user_dataset(source: Any, *, target: TargetReader = LABEL) -> Dataset | StreamDataset:
    """A user's `Dataset` of (image, label) pairs, a mapping of such: {"train": …, "val": …}, or a LightningDataModule;
    or a class or function that returns one of these.

    The target comes from an attribute (`classes` or `num_classes` for a classifier), or from the labels. Labels come
    from `targets` or `labels` where these agree with the samples; else every sample is loaded once.
    """
    if inspect.isclass(source) or inspect.isroutine(source) or isinstance(source, partial):
        with rank_zero_first():
            source = source()
    if hasattr(source, "train_dataloader"):
        source = _of_lightning(source)
    splits = dict(source) if isinstance(source, Mapping) else {"": source}
    unknown = [split for split in splits if split not in ("", "train", "val", "test")]
    if not splits or unknown or ("" not in splits and "train" not in splits):
        raise Failure(f"the dataset's splits are {', '.join(splits)}", "name them train, val and test")
    streams = [isinstance(dataset, IterableDataset) for dataset in splits.values()]
    if all(streams):
        return _streamed(splits, target)
    if any(streams):
        raise Failure("some of the dataset's splits are IterableDatasets and others are not", "use one kind for all")
    for split, dataset in splits.items():
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise Failure(
                f"{type(dataset).__name__}{f', the split {split},' if split else ''} is not a dataset",
                "it needs `__len__` and `__getitem__`, or to be an IterableDataset",
            )
    return _concatenated(splits, target)


def _of_lightning(module: Any) -> dict[str, Any]:
    """The datasets of a LightningDataModule; its batch size and order are replaced by the recipe's."""
    from lightning.fabric.utilities.exceptions import MisconfigurationException  # takes a while to load

    module.prepare_data()
    module.setup("fit")
    module.setup("test")
    splits = {}
    for split in ("train", "val", "test"):
        with suppress(MisconfigurationException, NotImplementedError):  # it has no such split
            splits[split] = getattr(module, f"{split}_dataloader")().dataset
    return splits


def _streamed(splits: Mapping[str, Any], reader: TargetReader) -> StreamDataset:
    target = _target_of(list(splits.values()), reader)
    if target is None:
        kind = type(next(iter(splits.values()))).__name__
        raise Failure(f"the {reader.attribute} of {kind} are not known", f"give it an attribute `{reader.attribute}`")
    return StreamDataset(target, {split or "train": dataset for split, dataset in splits.items()}, "" not in splits)


def _concatenated(splits: Mapping[str, Any], reader: TargetReader) -> Dataset:
    """Several datasets as one."""
    datasets = list(splits.values())
    loader = _Concatenated(tuple(datasets))
    size = loader.ends[-1]
    if size == 0:
        raise Failure(f"{type(datasets[0]).__name__} has no samples")
    predefined = {split: range(*between) for split, between in zip(splits, pairwise(loader.ends), strict=True) if split}
    target = _target_of(datasets, reader)
    if "" in splits and target is not None and target.kind == "class" and looks_split(target.names):
        fact = f"the classes of {type(datasets[0]).__name__} have names of splits: {', '.join(target.names)}"
        warnings.warn(f"{fact}; use a dataset for each split", Caution, stacklevel=2)
    labels = _known_labels(datasets)
    arrays = [dataset if isinstance(dataset, TensorDataset) else getattr(dataset, "data", None) for dataset in datasets]
    in_memory = all(isinstance(array, TensorDataset | Tensor | np.ndarray) for array in arrays)
    if labels is None and target is not None and target.kind != "number":  # numbers are standardised by their mean
        loader = replace(loader, target=target)
        return Dataset(target, None, size, loader.pair, loader.name, predefined, in_memory)
    labels = [loader.pair(index)[1] for index in range(size)] if labels is None else labels
    try:
        target, values = (Known(target) if target is not None else reader).read(labels)
    except BadTarget as bad:
        name = type(datasets[0]).__name__ if bad.at is None else loader.name(bad.at)
        raise Failure(f"{name} {bad.fact}", bad.help) from None
    return Dataset(target, values, size, loader.image, loader.name, predefined, in_memory)


def _target_of(datasets: Sequence[Any], reader: TargetReader) -> Target | None:
    """The target that a dataset declares by its attributes."""
    for dataset in datasets:
        while isinstance(dataset, Subset):
            dataset = dataset.dataset
        if (target := reader.told(dataset)) is not None:
            return target
    return None


@dataclass(frozen=True)
class _Concatenated:
    """Datasets one after another."""

    datasets: tuple[Any, ...]
    target: Target | None = None

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where each dataset begins among the samples of all, and where the last one ends."""
        return tuple(accumulate((len(dataset) for dataset in self.datasets), initial=0))

    def locate(self, index: int) -> tuple[Any, int]:
        """The dataset of a sample, and its index there."""
        which = bisect_right(self.ends, index) - 1
        return self.datasets[which], index - self.ends[which]

    def name(self, index: int) -> str:
        dataset, inner = self.locate(index)
        for attribute in _PAIRS:
            pairs = getattr(dataset, attribute, None)
            if isinstance(pairs, Sequence) and inner < len(pairs) and isinstance(pairs[inner][0], str):
                return str(pairs[inner][0])
        return f"sample {inner} of {type(dataset).__name__}"

    def digests(self, indices: np.ndarray) -> list[bytes]:
        by_index: dict[int, bytes] = {}
        for dataset, (start, end) in zip(self.datasets, pairwise(self.ends), strict=True):
            own = indices[(indices >= start) & (indices < end)]
            by_index |= zip(own.tolist(), _digests(dataset, (own - start).tolist()), strict=True)
        return [by_index[index] for index in indices.tolist()]

    def pair(self, index: int) -> tuple[Any, Any]:
        image, label = self._read(index)
        try:
            return image, as_plain(label) if self.target is None else self.target.value(as_plain(label))
        except BadTarget as bad:
            raise BadSample(self.name(index), bad.fact, bad.help) from None

    def image(self, index: int) -> Any:
        return self._read(index)[0]

    def _read(self, index: int) -> tuple[Any, Any]:
        """A sample as image and label."""
        dataset, inner = self.locate(index)
        try:
            return as_pair(dataset[inner], self.name(index))
        except (OSError, Image.DecompressionBombError) as problem:
            raise BadFile(self.name(index), str(problem)) from None


def as_pair(sample: Any, name: str) -> tuple[Any, Any]:
    """A sample as image and label."""
    if isinstance(sample, tuple | list) and len(sample) == 2:
        return sample[0], sample[1]
    found = f"{len(sample)} values" if isinstance(sample, tuple | list) else f"a {type(sample).__name__}"
    raise Failure(f"{name} is {found}, not a pair of image and label")


def as_plain(label: Any) -> Any:
    """A label as Python's own numbers, strings and lists; one with a height and a width stays as it is."""
    if getattr(label, "ndim", 0) > 1:
        return label
    size = label.numel() if isinstance(label, Tensor) else getattr(label, "size", None)
    if hasattr(label, "item") and size == 1:
        return label.item()
    return label.tolist() if hasattr(label, "tolist") else label


def _known_labels(datasets: Sequence[Any]) -> list[Any] | None:
    """All labels, if every dataset has them in an attribute."""
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
    """Values as a list of numbers, strings or lists of them, if that is what they are."""
    if values is None or not hasattr(values, "__len__") or isinstance(values, str | Mapping) or len(values) != length:
        return None
    if getattr(values, "ndim", 1) > 2:  # masks
        return None
    plain = [as_plain(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]
    return plain if all(isinstance(value, int | float | str | list | tuple) for value in plain) else None


def _agree(dataset: Any, labels: Sequence[Any]) -> bool:
    """Whether the labels in an attribute are those of the samples; three samples are loaded to compare."""
    for index in {0, len(labels) // 2, len(labels) - 1} if labels else ():
        try:
            sample = dataset[index]
        except (OSError, Image.DecompressionBombError):  # reported when it is read for training
            continue
        if not isinstance(sample, tuple | list) or len(sample) != 2 or as_plain(sample[1]) != labels[index]:
            return False
    return True
