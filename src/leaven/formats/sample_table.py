"""The record of samples: a Parquet file with a row for each sample that a model was measured on, or trained on.

    split, index          where it is in the dataset; of given data, `split` is "all" unless it is split
    file                  its name, as reports have it; what is not UTF-8 in it is escaped
    label, prediction     as words; a sample that was not measured has no prediction
    error                 0 or 1, or how large it is where errors are graded (`graded_by`)
    confidence, loss      in the prediction; of the label. `label_confidence` is that in the label
    probabilities         one for each of the `outputs`; of several labels, `labels` says which of them it has
    numbers, actual       the predicted and the actual numbers of a regression
    iou, missed, wrong    what segmentation and detection measure
    brightness            the mean of the tensor that the model got
    features              what the head of the model got
    text                  of a text, its first 2,000 characters
    digest                of a sample that has no file of its own, a hash of its content

A column that a task does not have is not there. What holds for all rows, its `facts`, is JSON in the file's metadata.
It is read and written by pyarrow, which is imported here alone.
"""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FORMAT = 1
LONGEST_TEXT = 2_000  # characters
NEEDS = "pip install 'leaven[lab]'"
_FACTS = b"leaven"


class Unreadable(ValueError):
    """Why a record can't be read, in a clause."""


def can_be_written() -> bool:
    """Whether the library is installed; does not import it."""
    return find_spec("pyarrow") is not None


def write(file: Path, parts: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> None:
    """Write a record: parts of columns, which are lists or arrays with a row for each sample."""
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    tables = [pa.table({name: _array(pa, column) for name, column in part.items()}) for part in parts]
    whole = pa.concat_tables(tables, promote_options="default")
    text = json.dumps({"format": FORMAT, **facts}, default=str)
    parquet.write_table(whole.replace_schema_metadata({_FACTS: text.encode()}), file, compression="zstd")


def _array(pa: Any, column: Any) -> Any:
    """A column of Parquet: numbers, rows of numbers, or texts."""
    if getattr(column, "ndim", 1) == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(column.reshape(-1)), column.shape[1])
    if hasattr(column, "ndim"):
        return pa.array(column)
    return pa.array([_storable(value) if isinstance(value, str) else value for value in column])


def _storable(text: str) -> str:
    """A text as UTF-8 has it: bytes of a file's name that are not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


class SampleTable:
    """A record that is open; a column is read when it is asked for."""

    def __init__(self, file: Path) -> None:
        if not can_be_written():
            raise Unreadable(f"reading {file.name} needs the library pyarrow: {NEEDS}")
        parquet = import_module("pyarrow.parquet")
        try:
            self._opened = parquet.ParquetFile(file)
            self.facts: dict[str, Any] = json.loads((self._opened.schema_arrow.metadata or {})[_FACTS])
            self.names = tuple(self._opened.schema_arrow.names)
            if self.facts["format"] != FORMAT:
                raise Unreadable(f"{file.name} is of another version of Leaven")
        except (OSError, ValueError, KeyError, TypeError) as problem:  # pyarrow's own are among the first two
            raise problem if isinstance(problem, Unreadable) else Unreadable(f"{file.name} is damaged") from problem
        self.file = file

    def __len__(self) -> int:
        return int(self._opened.metadata.num_rows)

    def read(self, *names: str) -> dict[str, Any]:
        """Some columns, as far as they are there, as pyarrow's arrays."""
        wanted = [name for name in names if name in self.names]
        try:
            found = self._opened.read(columns=wanted)
        except (OSError, ValueError) as problem:
            raise Unreadable(f"{self.file.name} is damaged") from problem
        return {name: found.column(name).combine_chunks() for name in wanted}
