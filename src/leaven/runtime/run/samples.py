"""The record of samples of a run: what its own evaluations measured of each one, written beside the model.

Validation samples are recorded with the weights that they were measured with (`best.ckpt`), test samples at the end.
Samples of training are listed without a prediction: the run has measured them only while it changed.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leaven.formats import sample_table
from leaven.formats.run_folder import SAMPLES
from leaven.formats.texts import parts_of
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset, file_digests
from leaven.runtime.failures import BadFile
from leaven.runtime.run.folder import write_whole

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run

Columns = dict[str, Any]


def as_tensors(columns: Mapping[str, Any]) -> Columns:
    """Columns as a checkpoint holds them."""
    return {name: torch.from_numpy(one) if isinstance(one, np.ndarray) else one for name, one in columns.items()}


def as_arrays(columns: Mapping[str, Any]) -> Columns:
    """Columns as they were before they were in a checkpoint."""
    return {name: one.numpy() if isinstance(one, Tensor) else one for name, one in columns.items()}


def joined(shares: Sequence[Mapping[str, Any]]) -> Columns:
    """The columns of several processes as one, in the order of the samples."""
    names = [name for name in shares[0] if all(name in share for share in shares)]
    whole = {name: [value for share in shares for value in share[name]] for name in names}
    order = np.argsort(np.asarray(whole["index"]), kind="stable")
    taken: Columns = {}
    for name in names:
        is_array = isinstance(shares[0][name], np.ndarray)
        taken[name] = np.asarray(whole[name])[order] if is_array else [whole[name][at] for at in order]
    return taken


def write_samples(run: "Run", data: Data, model: Path) -> None:
    """Write the record of a run whose model is saved; where that can't be, a line says why, and the run goes on."""
    dataset = data.dataset
    if not run.folder.writes or not isinstance(dataset, Dataset) or not any(run.samples.values()):
        return
    if not sample_table.can_be_written():
        run.print(f"samples are not recorded, which needs pyarrow: {sample_table.NEEDS}")
        return
    try:
        parts = _parts(run, dataset, data)
        facts = facts_of(dataset, file_digests([str(model)])[0].hex(), run.folder.lock.get("data"))
        write_whole(run.folder.path / SAMPLES, lambda beside: sample_table.write(beside, parts, facts))
    except Exception as problem:  # whatever the user's dataset raises, or pyarrow
        run.print(f"samples are not recorded: {type(problem).__name__}: {problem}")


def _parts(run: "Run", dataset: Dataset, data: Data) -> list[Columns]:
    """The columns of each split."""
    measured = {split: columns for split, columns in run.samples.items() if columns}
    parts = [{**described(dataset, split, columns["index"]), **columns} for split, columns in measured.items()]
    if len(trained := data.split.train):
        parts.append({**described(dataset, "train", trained), "label": labels(dataset, trained)})
    return parts


def facts_of(dataset: Dataset, model: str, data: Any) -> dict[str, Any]:
    """What holds for all samples; `model` is the hash of its file."""
    target = dataset.target
    return {
        "kind": target.kind,
        "outputs": list(target.names),
        "model": model,
        "data": data,
        "start": getattr(dataset.load, "start", os.getcwd()),  # of relative paths
    }


def described(dataset: Dataset, split: str, indices: Any) -> Columns:
    """What is known of some samples without measuring them."""
    chosen = np.asarray(indices, dtype=np.int64)
    columns: Columns = {
        "split": [split] * len(chosen),
        "index": chosen,
        "file": [dataset.name(index) for index in chosen.tolist()],
    }
    if not dataset.in_memory:
        return columns
    if dataset.digests is not None:
        columns["digest"] = [digest.hex() for digest in dataset.digests(chosen)]
    if len(chosen) and _text(dataset, int(chosen[0])) is not None:
        columns["text"] = [_text(dataset, index) for index in chosen.tolist()]
    return columns


def _text(dataset: Dataset, index: int) -> str | None:
    """The beginning of a text; None for a sample that is none."""
    try:
        sample = dataset.load(index)
    except BadFile:
        return None
    if not isinstance(sample, str | tuple) or not all(isinstance(part, str) for part in parts_of(sample)):
        return None
    return " · ".join(parts_of(sample))[: sample_table.LONGEST_TEXT]


def labels(dataset: Dataset, indices: Any) -> list[str | None]:
    """The classes of some samples; None where a label is no single word."""
    if dataset.values is None or dataset.target.kind != "class":
        return [None] * len(indices)
    return [dataset.target.names[int(dataset.values[index])] for index in indices.tolist()]
