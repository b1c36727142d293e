"""The subject of a question: a run (finished or not), a bundle, a published model, or a recipe that was never run.

Decides which of these a word means, once for all calls of the lab. What each has is read when it is first asked for.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from leaven.bundle import Bundle
from leaven.formats import run_folder
from leaven.lab.run_data import data_of, has_run
from leaven.language.source import Source
from leaven.language.source_files import read_source
from leaven.plan.plan import Plan
from leaven.plan.recorded_plan import recorded_plan
from leaven.planning.compiling import compile_source
from leaven.runs.models import load_model
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.failures import Failure

RECIPE = ".leaven"


class Subject:
    """A model or a recipe by its name, with the folder of its run if it has one."""

    def __init__(self, word: str | os.PathLike[str], *, trust_code: bool = False) -> None:
        self.name = os.fspath(word)
        self.trust_code = trust_code
        path = Path(self.name)
        self.recipe: Source | None = _recipe(path) if path.suffix == RECIPE else None
        self.run: Path | None = None if self.recipe is not None else _run_of(path)

    def __repr__(self) -> str:
        return f"<Subject {self.name}>"

    @cached_property
    def model(self) -> Bundle:
        """The trained model; a recipe that was never run has none."""
        if self.recipe is not None:
            raise Failure(f"{self.name} is a recipe, which has no trained model", "train it, and give its run")
        return load_model(self.name, trust_code=self.trust_code)

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of the recipe or of the run; a bundle alone and a published model have none."""
        if self.recipe is not None:
            return _plan_of(self.recipe)
        return recorded_plan(self.run) if self.run is not None else None

    @contextmanager
    def data(self) -> Iterator[Dataset]:
        """The dataset of the run, with its splits."""
        if self.run is None:
            raise Failure(f"{self.name} is not in the folder of a run, so its data is not known", "give data: `data=`")
        with data_of(self.run, trust_code=self.trust_code) as dataset:
            yield dataset


def _recipe(path: Path) -> Source:
    source = read_source(path, str(path))
    if not isinstance(source, Source):
        raise Failure(source.headline)
    return source


def _plan_of(recipe: Source) -> Plan:
    compiled = compile_source(recipe)
    if compiled.plan is None:
        problem = next(report for report in compiled.diagnostics if report.is_error)
        raise Failure(f"{recipe.name} has errors: {problem.headline}", f"`leaven check {recipe.name}` shows them")
    return compiled.plan


def _run_of(path: Path) -> Path | None:
    """The folder of the run that a path means: itself, the newest in it, or the one that a bundle lies in."""
    if path.is_dir():
        program = run_folder.newest(path, run_folder.PROGRAM)
        return program.parent if program is not None else None
    return path.parent if has_run(path) else None
