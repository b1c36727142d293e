"""Images with numbers or several labels, as the target of the task reads them."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import ConcatDataset

from leaven.runtime.data.torch_datasets import _known_labels, as_plain
from leaven.runtime.plain.datasets import (
    ImageFiles,
    Images,
    Samples,
    metadata_splits,
    predefined_in,
    splits_of_user,
    table_splits,
    with_ending,
)


def table_of_targets(
    path: str,
    *,
    image: str,
    target: Any,
    root: str | None = None,
    ending: str = "",  #: if ending
    on_bad_file: str = "stop",  #: if skip
    **layout: Any,
) -> Samples:
    """The images that a table lists, one per row; a folder may hold one table per split."""
    splits = table_splits(path, (image, *target.columns), root, layout)
    splits = {split: with_ending(rows, ending) for split, rows in splits.items()}  #: if ending
    return read_targets(splits, target)


def folder_of_targets(path: str, *, target: Any) -> Samples:
    """The images of a folder that a table in it lists, `metadata.csv`; splits are folders with a table each."""
    return read_targets(metadata_splits(path, ("file_name", *target.columns)), target)


def read_targets(splits: Mapping[str, list[tuple[Any, Any]]], reader: Any) -> Samples:
    """Images with what a model learns to predict of each, split after split."""
    pairs = [pair for split in splits.values() for pair in split]
    target, values = reader.read([given for _, given in pairs])
    return Samples(target.names, ImageFiles([image for image, _ in pairs]), values, predefined_in(splits), target)


def user_targets(source: Any, *, target: Any) -> Samples:
    """A dataset of (image, target) pairs, or several: {"train": …, "val": …}; or what returns them."""
    splits = splits_of_user(source)
    datasets, predefined = list(splits.values()), predefined_in(splits)
    joined: Any = ConcatDataset(datasets)
    given = _known_labels(datasets)
    told = next((found for one in datasets if (found := target.told(one)) is not None), None)
    if given is None:
        given = [as_plain(joined[at][1]) for at in range(len(joined))]
    if told is not None:
        return Samples(told.names, Images(joined), [told.value(one) for one in given], predefined, told)
    known, values = target.read(given)
    return Samples(known.names, Images(joined), values, predefined, known)
