"""Datasets of texts of Hugging Face's datasets library: from its hub, or from a folder.

Decides how its splits and columns become samples; what labels mean is decided by the task.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from leaven.formats.image_folder import PART_NAMES
from leaven.formats.target import BadTarget, TargetReader
from leaven.formats.texts import Text, text_columns
from leaven.runtime.data.datasets import LABEL, Dataset, Texts
from leaven.runtime.downloads import from_hub, rank_zero_first
from leaven.runtime.failures import Failure
from leaven.sources.source import predefined
from leaven.terminal import status_line

_SAVED = ("dataset_dict.json", "state.json")  # by which a folder is known that `save_to_disk` wrote


@status_line.doing("reading the data…")
def hub_dataset(
    name: str, *, text: str | Sequence[str], config: str | None = None, target: TargetReader = LABEL
) -> Dataset:
    """The texts of a dataset by its name on the hub, or in a folder; two columns of texts are read as pairs."""
    with rank_zero_first():
        splits = _splits(_loaded(name, config), name)
    columns = text_columns(text)
    texts: list[Text] = []
    labelled: list[Any] = []
    places: list[str] = []
    for split, rows in splits.items():
        for column in (*columns, *target.columns):
            if column not in rows.column_names:
                listed = ", ".join(rows.column_names)
                raise Failure(f"the dataset {name} has no column {column}", f"its columns are {listed}", "data.source")
        cells = [["" if cell is None else str(cell) for cell in rows[column]] for column in columns]
        texts += [parts[0] if len(parts) == 1 else parts for parts in zip(*cells, strict=True)]
        labels = [_named(rows, column) for column in target.columns]
        labelled += labels[0] if len(labels) == 1 else list(zip(*labels, strict=True))
        places += [f"row {number + 1} of {split or name}" for number in range(len(rows))]
    try:
        made, values = target.read(labelled)
    except BadTarget as bad:
        raise Failure(f"{name if bad.at is None else places[bad.at]} {bad.fact}", bad.help, "data.source") from None
    reads = Texts(texts.__getitem__, places, columns)
    sizes = predefined({split: len(rows) for split, rows in splits.items()})
    return Dataset(made, values, len(texts), reads, places.__getitem__, sizes, True, reads.digests)


def _loaded(name: str, config: str | None) -> Any:
    try:
        import datasets  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise Failure("the library datasets is not installed", "pip install datasets", "data.source") from None
    try:
        if os.path.isdir(name) and any(os.path.isfile(os.path.join(name, file)) for file in _SAVED):
            return datasets.load_from_disk(name)
        with from_hub(name):
            return datasets.load_dataset(name, config)
    except Failure:
        pass
    except Exception as problem:  # what the library raises depends on the builder of the dataset
        if os.path.isdir(name) or not isinstance(problem, OSError | ConnectionError):
            reason = " ".join(str(problem).split()).partition(". ")[0]
            raise Failure(f"the dataset {name} can't be read: {reason}", about="data.source") from None
    raise Failure(
        f"the dataset {name} is not a folder here, and could not be downloaded",
        "without a network connection, give a folder, or a table: `csv(…)`",
        "data.source",
    )


def _splits(loaded: Any, name: str) -> dict[str, Any]:
    """The splits of a dataset by Leaven's names; one without splits is the whole, ''."""
    if not isinstance(loaded, Mapping):
        return {"": loaded}
    by_name = {
        split: loaded[there] for split, names in PART_NAMES.items() for there in loaded if str(there).lower() in names
    }
    if "train" in by_name:
        return by_name
    if len(loaded) == 1:
        return {"": next(iter(loaded.values()))}
    raise Failure(f"the dataset {name} has no split train", f"its splits are {', '.join(loaded)}", "data.source")


def _named(rows: Any, column: str) -> list[Any]:
    """The labels in a column; numbers that stand for classes become their names."""
    feature = rows.features[column]
    values = list(rows[column])
    if not hasattr(feature, "int2str"):
        return values
    if unlabelled := [at for at, value in enumerate(values) if value is None or value < 0]:
        raise Failure(f"row {unlabelled[0] + 1} has no {column}", "the labels of such a split are not published")
    return [feature.int2str(value) for value in values]
