"""The data of a run, opened again to measure its model on it.

The recipe in the run's folder says what the data is, and compiling it runs no code of the folder. A recipe that uses
Python files, or a run that has no recipe, needs the run's program, which runs only if it is trusted.
"""

from collections.abc import Iterator
from contextlib import chdir, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from leaven.formats.run_folder import LOCK, PROGRAM, read_json, started_in
from leaven.lab.program import Program, program_of
from leaven.language.recorded_recipe import recorded_recipe
from leaven.language.source import Source
from leaven.planning.compiling import compile_source
from leaven.runtime.data.batches import Data
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.torch_datasets import StreamDataset
from leaven.runtime.failures import Failure

_ELSE = "give labelled data: `data=`"


@contextmanager
def data_of(run: Path, *, trust_code: bool = False) -> Iterator[Dataset]:
    """The dataset of a run with its splits; the samples are those that the run was started with.

    Where the run's program opens it, the current folder is the one where the run was started, as long as this lasts.
    """
    with opened_run(run, trust_code=trust_code) as (_, data):
        yield _dataset(run, data)


@contextmanager
def opened_run(run: Path, *, trust_code: bool = False) -> Iterator[tuple[Program, Data]]:
    """The program of a run and its data, with the samples that the run was started with."""
    lock, recipe = read_json(run / LOCK), recorded_recipe(run)
    if recipe is None and not trust_code:
        raise Failure(
            f"the data of {run} is opened by Python code that comes with it, which is not run unless you trust it",
            f"if you do: `trust_code=True`; else {_ELSE}",
        )
    with _program(run, recipe) as program, closing(program.build_data(int(lock.get("seed", 0)))) as data:
        if not isinstance(data.dataset, StreamDataset) and lock.get("data") not in (None, data.fingerprint()):
            raise Failure(
                f"the data of {run} has other samples than when the run was started", f"restore it, or {_ELSE}"
            )
        yield program, data


@contextmanager
def _program(run: Path, recipe: Source | None) -> Iterator[Program]:
    """The program of a recipe, or without one that of the run itself."""
    if recipe is None:
        with chdir(started_in(run)):
            yield Program(run.resolve())
        return
    compiled = compile_source(recipe)
    if compiled.plan is None:
        problem = next(report for report in compiled.diagnostics if report.is_error)
        raise Failure(f"the data of the run can't be opened: {problem.headline}", _ELSE)
    with program_of(compiled.plan) as program:
        yield program


def _dataset(run: Path, data: Data) -> Dataset:
    """The dataset with the splits of the run."""
    if isinstance(data.dataset, StreamDataset):
        raise Failure(f"the data of {run} is a stream, whose samples can only be trained on", _ELSE)
    splits = {name: getattr(data.split, name).tolist() for name in ("train", "val", "test")}
    return replace(data.dataset, predefined={name: indices for name, indices in splits.items() if indices})


def has_run(bundle: Path) -> bool:
    """Whether the file of a bundle is in the folder of its run."""
    return (bundle.parent / PROGRAM).is_file() and bool(read_json(bundle.parent / LOCK))
