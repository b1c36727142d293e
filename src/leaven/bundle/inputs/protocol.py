"""The kind of input of a bundle's model, as the rest of the bundle uses it without asking which kind it is."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from leaven.formats.tables import PLAIN, Layout, is_table_like
from leaven.formats.target import Known, Target
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.failures import Failure
from leaven.tasks.protocol import Task

Size = int | tuple[int, int] | None  # of images, both sides alike or height and width
LONGEST_NAME = 200  # letters of an input in a report
SplitName = Literal["train", "val", "test", "all"]


@dataclass(frozen=True)
class Measured:
    """Which labelled samples a user wants to measure: the data, which split of it, and which columns a table has."""

    data: Any
    split: SplitName | None
    image: str | None  # none: that of the training
    text: tuple[str, ...]  # none: those of the training
    columns: tuple[str, ...]  # none: those usual for the task
    root: str | os.PathLike[str] | None
    on_bad_file: Literal["stop", "skip"] = "stop"


class Example(NamedTuple):
    """An input to try a model with, as Python and as the command line have it."""

    python: str
    typed: str


class Meant(NamedTuple):
    """The inputs that the arguments of a command name, each with its name; and the problems with them."""

    inputs: list[tuple[str, Any]]
    problems: list[Failure]
    is_one: bool  # whether all of the arguments are one input


@dataclass(frozen=True)
class Exported:
    """A model that takes its tensors one by one, with a batch of them, their names, and which sides may vary."""

    model: nn.Module
    names: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    dynamic_shapes: Any


@dataclass(frozen=True, kw_only=True)
class InputKind(ABC):
    """The kind of input a model expects, and what a table of such inputs was like in the training."""

    columns: tuple[str, ...] = ()  # of the table that had them
    layout: Layout = PLAIN  # of that table
    ending: str = ""  # of the files that it named, where it left that out

    noun: ClassVar[str]  # what the model is given, in a word
    heading: ClassVar[str]  # of the column of inputs in a table of predictions
    forms: ClassVar[tuple[str, ...]]  # of which an example may be

    # -- in the file

    @classmethod
    @abstractmethod
    def like(cls, example: Any) -> Self | None:
        """The kind of input of an example; None for one of another kind."""

    @classmethod
    @abstractmethod
    def read(cls, data: Mapping[str, Any]) -> Self | None:
        """The kind of input from what `to_json` wrote; None for another kind."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...

    # -- when it is saved

    def with_columns(self, columns: Sequence[str], layout: Layout, ending: str = "") -> Self:
        """The same, read from these columns of a table laid out so, where that matters."""
        return replace(self, columns=tuple(columns), layout=layout, ending=ending)

    def probes(self) -> Sequence[Self]:
        """The same in several sizes, which tell whether the transforms end with one; none where it can't vary."""
        return ()

    def of_any_size(self) -> Self:
        """The same where the transforms decide the size, so that the model need not be given one size."""
        return self

    @abstractmethod
    def golden_inputs(self, near: tuple[int, int], generator: torch.Generator) -> list[Tensor]:
        """A few inputs, as tensors that can be stored, of heights and widths near the given ones."""

    def large_inputs(self) -> list[Tensor]:
        """Inputs as large as people may give them, where golden ones are smaller."""
        return []

    @abstractmethod
    def as_input(self, made: Tensor) -> Any:
        """A golden input in the form in which the transforms take it."""

    # -- for the card

    @property
    @abstractmethod
    def example(self) -> Example: ...

    @abstractmethod
    def described(self, shape: Sequence[int], preprocess: Any) -> str:
        """The input and its transforms in words; `shape` is that of the result."""

    # -- to predict

    @abstractmethod
    def is_one(self, given: Any) -> bool:
        """Whether what is given in Python is one input, not several."""

    def files(self, given: Any) -> list[str] | None:
        """The files of the inputs, where a folder or a pattern is given; None for anything else."""
        return None

    @abstractmethod
    def converted(self, given: Any) -> Any:
        """An input as the transforms take it; a Failure where it can't be used."""

    @abstractmethod
    def meant(self, arguments: Sequence[str], columns: Sequence[str], root: Path | None = None) -> Meant:
        """The inputs that a command line names; `columns` are those of a table, none: those of the training. Paths in a
        table start in `root`, None: in its folder."""

    @abstractmethod
    def named(self, names: Sequence[str], folder: Path) -> Any:
        """The input that these words in a file of this folder mean: the path of an image, or a text."""

    @abstractmethod
    def name_in(self, folder: Path, given: Any) -> Any:
        """The same input as a file in this folder has to name it."""

    @abstractmethod
    def shortened(self, name: str, width: int) -> str:
        """The name of an input, in not more than so many characters."""

    # -- to evaluate

    @abstractmethod
    def folder(self, path: Path, measured: Measured, task: Task, target: Target) -> Dataset | None:
        """The labelled samples at a path; None where only a table could have them."""

    def is_table(self, path: Path) -> bool:
        """Whether a file is a table of such inputs."""
        return is_table_like(path, self.layout)

    @abstractmethod
    def table(self, path: Path, measured: Measured, target: Known) -> Dataset:
        """The labelled samples of a table."""

    def shown(self, sample: Any) -> Any:
        """The image or text of a sample, for a page."""
        return sample

    # -- to export

    @abstractmethod
    def exported(
        self, model: nn.Module, prepared: Sequence[Any], size: Size, *, shape: Sequence[int], preprocess: Any
    ) -> Exported:
        """The model for other programs, with a batch of the golden inputs, in the size that is asked for."""


def name_of(given: Any, noun: str, number: int = 0) -> str:
    """The name of an input in a report: its path, the text, or its place among the others, after the `noun`."""
    if isinstance(given, str) and ("\n" in given or len(given) > LONGEST_NAME):
        return f"“{given[:LONGEST_NAME].strip()}…”"
    if isinstance(given, list | tuple):
        return f"pair {number + 1}"
    return os.fspath(given) if isinstance(given, str | os.PathLike) else f"{noun} {number + 1}"
