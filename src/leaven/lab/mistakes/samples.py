"""The samples that a model was measured on, as a value: the record of a run, or one that was made on demand.

Decides whether the record of a run still holds. Never imports torch; measuring on demand is in `on_demand.py`.
"""

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leaven.cache.file_hashes import hashes_in
from leaven.formats import run_folder
from leaven.formats.finite_json import as_json
from leaven.formats.sample_table import SampleTable, Unreadable

if TYPE_CHECKING:
    from leaven.bundle import Bundle
    from leaven.lab.subject import Subject

TRAIN: Literal["train"] = "train"
_COLUMNS = ("split", "index", "file", "label", "prediction", "error", "confidence", "loss")


class Samples:
    """A row for each sample; `notes` say what is to be known of the record. Columns are those of
    `formats/sample_table.py`."""

    def __init__(self, table: SampleTable, subject: str, notes: tuple[str, ...] = ()) -> None:
        self.table = table
        self.subject = subject
        self.notes = notes
        self._columns: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.table)

    @property
    def file(self) -> Path:
        """The Parquet file."""
        return self.table.file

    @property
    def kind(self) -> str:
        """The kind of target (`formats/target_kind.py`)."""
        return str(self.table.facts["kind"])

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of each output of the model."""
        return tuple(self.table.facts["outputs"])

    @property
    def noun(self) -> str:
        return "text" if "text" in self.table.names else "image"

    # -- columns

    def _read(self, *names: str) -> None:
        self._columns |= self.table.read(*(name for name in names if name not in self._columns))

    def words(self, name: str) -> list[str | None]:
        """A column of texts; None where a sample has none."""
        self._read(name)
        if name not in self._columns:
            return [None] * len(self)
        found: list[str | None] = self._columns[name].to_pylist()
        return found

    def numbers(self, name: str) -> np.ndarray:
        """A column of numbers; NaN where a sample has none."""
        self._read(name)
        if name not in self._columns:
            return np.full(len(self), np.nan)
        return np.asarray(self._columns[name].to_numpy(zero_copy_only=False), dtype=np.float64)

    def rows_of(self, name: str) -> np.ndarray | None:
        """A column of rows of numbers, NaN where a sample has none; None where there is no such column."""
        self._read(name)
        if name not in self._columns:
            return None
        column = self._columns[name]
        known = column.is_valid().to_numpy(zero_copy_only=False)
        values = column.drop_null().flatten().to_numpy(zero_copy_only=False).astype(np.float32)
        found = np.full((len(self), column.type.list_size), np.nan, dtype=np.float32)
        found[known] = values.reshape(-1, column.type.list_size)
        return found

    @cached_property
    def is_measured(self) -> np.ndarray:
        """Which samples have a prediction."""
        measured: np.ndarray = ~np.isnan(self.numbers("error"))
        return measured

    @cached_property
    def files(self) -> list[str]:
        return [name or "" for name in self.words("file")]

    @cached_property
    def splits(self) -> list[str]:
        return [name or "" for name in self.words("split")]

    def path(self, at: int) -> Path:
        """Where the file of a sample is, if it has one."""
        return Path(os.path.join(str(self.table.facts.get("start", "")), self.files[at]))

    @property
    def counts(self) -> dict[str, int]:
        """How many samples each split has."""
        return {split: self.splits.count(split) for split in dict.fromkeys(self.splits)}

    # -- shown

    def row(self, at: int) -> dict[str, Any]:
        """A sample as JSON has it."""
        found: dict[str, Any] = {}
        for name in _COLUMNS:
            if name in ("error", "confidence", "loss", "index"):
                number = float(self.numbers(name)[at])
                found[name] = None if not np.isfinite(number) else int(number) if name == "index" else number
            else:
                found[name] = self.words(name)[at]
        return found

    @as_json
    def to_json(self, first: int = 0, count: int | None = None) -> dict[str, Any]:
        """The rows, or `count` of them from the `first` on."""
        ends = len(self) if count is None else min(len(self), first + count)
        rows = [self.row(at) for at in range(first, ends)]
        facts = {"subject": self.subject, "kind": self.kind, "outputs": list(self.outputs), "notes": list(self.notes)}
        return {**facts, "splits": self.counts, "count": len(self), "first": first, "rows": rows}

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {split}" for split, count in self.counts.items())
        return f"<Samples of {self.subject}: {counts}; {int(self.is_measured.sum()):,} measured>"


def samples(
    subject: "str | os.PathLike[str] | Subject | Bundle",
    data: Any = None,
    *,
    features: bool = False,
    trust_code: bool = False,
) -> Samples:
    """One row for each sample that a run, a bundle or a published model was measured on: its label and prediction.

    A finished run has recorded them. For other `data` (a folder or a table of labelled inputs) they are measured once
    and kept in the cache, until the model or the data change. With `features`, all samples have what the head of the
    model gets for them, for which those of training are run through the model as well.
    """
    reason = ""
    if data is None and isinstance(subject, str | os.PathLike):
        found = recorded(Path(subject))
        if isinstance(found, Samples) and not features:
            return found
        reason = found if isinstance(found, str) else ""
    from leaven.lab.mistakes.on_demand import measured_samples  # which needs torch

    return measured_samples(subject, data, features=features, trust_code=trust_code, reason=reason)


def recorded(path: Path) -> Samples | str:
    """The record of a run, if it has one that holds; else why not, in a clause, or nothing where that is no run."""
    run = _run_of(path)
    if run is None:
        return ""
    file, bundle = run / run_folder.SAMPLES, run / run_folder.BUNDLE
    if not bundle.is_file():
        return "the run is not finished: this is about its best epoch so far"
    if not file.is_file():
        return f"{run} has no record of its samples: they were measured now"
    try:
        table = SampleTable(file)
        found = Samples(table, str(path))
        found.is_measured  # noqa: B018  # reads the file, which may be damaged
    except Unreadable as problem:
        return f"{problem}: samples were measured again"
    if table.facts.get("model") != model_hash(bundle):
        return f"{file.name} is of another model than {bundle.name}: samples were measured again"
    if changed := changed_files(found):
        what = "1 file has" if len(changed) == 1 else f"{len(changed):,} files have"
        return f"{what} changed since the run, such as {changed[0]}: samples were measured again"
    if not run_folder.is_finished(run):
        found.notes += ("the run was resumed: this is about its model from before",)
    return found


def _run_of(path: Path) -> Path | None:
    """The folder of the run that is meant: itself, the newest in it, or the one that a bundle lies in."""
    if path.is_dir():
        program = run_folder.newest(path, run_folder.BUNDLE) or run_folder.newest(path, run_folder.PROGRAM)
        return program.parent if program is not None else None
    is_in_run = path.name == run_folder.BUNDLE and (path.parent / run_folder.PROGRAM).is_file()
    return path.parent if is_in_run else None


def model_hash(bundle: Path) -> str:
    """A hash of the file of a model; that of an unchanged file is remembered."""
    table = hashes_in(bundle.parent)
    (found,) = table.of([bundle])
    table.save()
    return found.hex()


def changed_files(found: Samples) -> list[str]:
    """The measured files that were changed after the record was written; one that is missing has not changed."""
    written = found.file.stat().st_mtime
    changed = []
    for at in np.flatnonzero(found.is_measured).tolist():
        try:
            facts = os.stat(found.path(at))
        except (OSError, ValueError):  # the name of a sample need not be that of a file
            continue
        if facts.st_mtime > written:
            changed.append(found.files[at])
    return changed
