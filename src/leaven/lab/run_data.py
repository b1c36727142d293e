"""The data of a run, opened again to measure its model on it.

The recipe in the run's folder says what the data is, and compiling it runs no code of the folder. A recipe that uses
Python files, or a run that has no recipe, needs the run's program, which runs only if it is trusted.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from leaven.formats.atomic_files import write_text
from leaven.formats.run_folder import LOCK, PROGRAM, read_json
from leaven.lab.program import Program, write_program
from leaven.language.recorded_recipe import recorded_recipe
from leaven.language.source import Source
from leaven.plan.compiling import compile_source
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.torch_datasets import StreamDataset
from leaven.runtime.failures import Failure

_ELSE = "give labelled images: `data=`"


@contextmanager
def data_of(run: Path, *, trust_code: bool = False) -> Iterator[Dataset]:
    """The dataset of a run with its splits; the samples are those that the run was started with.

    Where the run's program opens it, the current folder is the one where the run was started, as long as this lasts.
    """
    lock = read_json(run / LOCK)
    recipe = recorded_recipe(run)
    if recipe is not None:
        with _compiled(recipe, lock) as data:
            yield _dataset(run, data, lock)
        return
    if not trust_code:
        raise Failure(
            f"the data of {run} is opened by Python code that comes with it, which is not run unless you trust it",
            f"if you do: `trust_code=True`; else {_ELSE}",
        )
    with _chdir(str(lock.get("started_in", "."))):
        data = Program(run.resolve()).build_data(int(lock.get("seed", 0)))
        try:
            yield _dataset(run, data, lock)
        finally:
            data.close()


@contextmanager
def _compiled(recipe: Source, lock: dict[str, Any]) -> Iterator[Data]:
    compiled = compile_source(recipe)
    if compiled.plan is None:
        problem = next(report for report in compiled.diagnostics if report.is_error)
        raise Failure(f"the data of the run can't be opened: {problem.headline}", _ELSE)
    with TemporaryDirectory(prefix="leaven-") as place:
        folder = Path(place).resolve()
        write_program(compiled.plan, folder)
        write_text(folder / LOCK, "{}")
        data = Program(folder).build_data(int(lock.get("seed", 0)))
        try:
            yield data
        finally:
            data.close()


@contextmanager
def _chdir(folder: str) -> Iterator[None]:
    before = os.getcwd()
    if os.path.isdir(folder):
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _dataset(run: Path, data: Data, lock: dict[str, Any]) -> Dataset:
    """The dataset with the splits of the run, if it is still the one that the run was started with."""
    if isinstance(data.dataset, StreamDataset):
        raise Failure(f"the data of {run} is a stream, whose samples can only be trained on", _ELSE)
    if lock.get("data") not in (None, data.fingerprint()):
        raise Failure(f"the data of {run} has other samples than when the run was started", f"restore it, or {_ELSE}")
    splits = {name: getattr(data.split, name).tolist() for name in ("train", "val", "test")}
    return replace(data.dataset, predefined={name: indices for name, indices in splits.items() if indices})


def has_run(bundle: Path) -> bool:
    """Whether the file of a bundle is in the folder of its run."""
    return (bundle.parent / PROGRAM).is_file() and bool(read_json(bundle.parent / LOCK))
