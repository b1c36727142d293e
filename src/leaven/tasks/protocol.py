"""The interface of tasks: the module of each, for example `leaven.tasks.classification`, has the members of `Task`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from PIL import Image
from torch import Tensor, nn

from leaven.formats.target import Target
from leaven.runtime.data.datasets import Dataset
from leaven.runtime.data.samples import Samples
from leaven.tasks.reports import finite, percent
from leaven.tasks.scored import OutputScore
from leaven.terminal.score_text import score_text

MOST_NUMBERS = 5_000_000  # that are kept of all samples together, such as their probabilities


@dataclass(frozen=True)
class Description:
    """The purpose of a model with a target, in the words of its bundle's card."""

    purpose: str  # "classifies images into 3 classes"
    title: str  # what the outputs stand for: "Classes"
    outputs: str  # a section about them, as Markdown
    example: str  # what to call on a prediction: ".top(3)"
    outputs_name: str = "logits"  # what other programs call the tensor


class Prediction(ABC):
    """The prediction of a model for one input. Where results are ranked, only the first `top` are shown."""

    most: ClassVar[int | None] = None  # how many are shown by default; None where the first one matters most
    columns: ClassVar[tuple[str, ...]] = ()  # of its rows, where there may be none
    are_shares: ClassVar[bool] = True  # its numbers are shares of one, which differ by points
    has_places: ClassVar[bool] = False  # it says where in the image something is

    @abstractmethod
    def describe(self, top: int) -> str:
        """For a person, one line per name."""

    @abstractmethod
    def cells(self, top: int, *, on_screen: bool = False) -> dict[str, str]:
        """As columns of a table, a row per input; with fewer digits on the screen."""

    @abstractmethod
    def to_json(self, top: int) -> dict[str, Any]: ...

    def above_threshold(self, threshold: float) -> "Prediction | None":
        """Predictions with a confidence of at least that; None if thresholds don't apply."""
        return None

    def rows(self, top: int) -> list[dict[str, str]]:
        """As rows of a csv file."""
        return [self.cells(top)]

    def drawn(self, image: Image.Image) -> Image.Image | None:
        """A copy of the image with what was found; None where that has no place in the image."""
        return None

    # -- compared with another

    @property
    @abstractmethod
    def answer(self) -> str:
        """The answer in a word or a few, as a check expects it."""

    @abstractmethod
    def numbers(self) -> dict[str, float]:
        """The numbers behind the answer, by name."""

    def shown_number(self, name: str, number: float) -> str:
        """One of the numbers, or a difference of two, for a person."""
        return percent(number)

    def is_same(self, other: "Prediction") -> bool:
        """Whether another prediction gives the same answer."""
        return self.answer == other.answer

    def is_answer(self, expected: str) -> bool:
        """Whether this is the expected answer; a Failure for words that can't be an answer."""
        return self.answer == expected

    def agreement(self, other: Any) -> str:
        """How far a prediction of the same kind for the same image agrees, in words; empty if `is_same` says it all."""
        return ""


@dataclass(frozen=True)
class Table:
    """Rows for a page, of which the first cell is a name and the others are numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Case:
    """The prediction for one input that a model was measured on; `at` is its place in the order of measuring."""

    at: int
    file: str
    actual: str  # with its probability, where there is one
    predicted: str
    note: str  # how far off it is, or what is wrong; may be empty
    is_right: bool
    marked: Callable[[Any], Any] = lambda shown: shown  # draws actual and predicted objects on the image


@dataclass(frozen=True)
class Plot:
    """A figure of an evaluation, drawn when it is asked for: `png` is the content of the file."""

    name: str
    title: str
    png: Callable[[], bytes]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Evaluation(ABC):
    """How well a model does; its text is a report."""

    graded_by: ClassVar[str] = ""  # the error of an input, where it is not just right or wrong

    skipped: tuple[str, ...] = ()  # the files that could not be read
    inputs: str = "images"  # what was measured, in a word

    if TYPE_CHECKING:  # which may be fields as well

        @property
        @abstractmethod
        def count(self) -> int:
            """How many inputs were measured."""

        @property
        @abstractmethod
        def scores(self) -> dict[str, float]: ...

        @property
        @abstractmethod
        def caveat(self) -> str:
            """A line about a model that is no better than a guess; else empty."""

    @abstractmethod
    def tables(self) -> list[Table]: ...

    @abstractmethod
    def plots(self) -> list[Plot]: ...

    @abstractmethod
    def wrong(self) -> list[dict[str, str]]:
        """The inputs that were predicted wrongly, as rows of a csv file; the worst first."""

    @abstractmethod
    def ranked(self) -> list[int]:
        """The places of all inputs, from the one with the worst prediction."""

    @abstractmethod
    def case(self, at: int) -> Case:
        """The prediction for one input."""

    def error(self, at: int) -> float:
        """How wrong the prediction for one input is: 0 or 1, or by how much if such errors are graded."""
        return 0.0 if self.case(at).is_right else 1.0

    def columns(self) -> dict[str, Any]:
        """What was measured of each input, as columns of the record of samples (`formats/sample_table.py`)."""
        cases = [self.case(at) for at in range(self.count)]
        return {
            "file": [case.file for case in cases],
            "label": [case.actual for case in cases],
            "prediction": [case.predicted for case in cases],
            "error": np.array([self.error(case.at) for case in cases]),
        }

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """For JSON: what else was measured, and under `wrong` the inputs that were predicted wrongly."""

    @abstractmethod
    def lines_below(self) -> list[str]:
        """The lines of the report below the scores."""

    def cases(self, k: int) -> list[Case]:
        """The k worst predictions, the worst first."""
        return [self.case(at) for at in self.ranked()[:k]]

    def to_json(self) -> dict[str, Any]:
        """All that was measured, with the inputs that were predicted wrongly."""
        known = {self.inputs: self.count, "scores": finite(self.scores), "caveat": self.caveat}
        return {**known, **self.details(), "skipped": list(self.skipped)}

    def score_lines(self) -> list[str]:
        """A line for each score."""
        width = max(map(len, self.scores))
        return [f"{name:<{width}}  {score_text(score)}" for name, score in self.scores.items()]

    def __str__(self) -> str:
        caveat = ["", self.caveat] if self.caveat else []
        head = [f"{self.count} {self.inputs}", *self.score_lines(), *caveat]
        return "\n".join([*head, "", *self.lines_below()])

    def __repr__(self) -> str:
        return f"<Evaluation: {', '.join(f'{name} {score_text(score)}' for name, score in self.scores.items())}>"


class Tally(Protocol):
    """The running totals while a model is measured."""

    def add(self, outputs: Any, values: Sequence[Any], names: Sequence[str]) -> None:
        """Add a batch: the outputs of the model, the true values, and the names of the samples."""

    def result(self, skipped: tuple[str, ...]) -> Evaluation: ...


class Task(Protocol):
    """The module of a task. Its functions take the task's own target."""

    Samples: type[Samples]  # how its samples are transformed and made into batches
    Evaluation: type[Evaluation]  # what its tally adds up to

    def read_target(self, data: Any) -> Target:
        """The target from what its `to_json` wrote; a ValueError where it can't be read."""

    def describe(self, target: Any, inputs: str) -> Description:
        """`inputs` are what the model is given: "images", "texts"."""

    def predictions(self, outputs: Any, target: Any) -> Sequence[Prediction]:
        """The predictions from a batch of outputs."""

    def output_score(self, outputs: Any, target: Any, wanted: str | None) -> OutputScore:
        """The score that `wanted` names, or that of the answer; `outputs` are those for a batch of one input."""

    def row(self, model: nn.Module, image: Any) -> Tensor:
        """Numbers by which a model is recognised: what it computes for an image; a Failure where it can't."""

    def row_size(self, target: Any) -> int | None:
        """How many numbers are in a row; None where that depends on the model."""

    def Tally(self, target: Any) -> Tally:
        """An empty tally."""

    def exported(self, model: nn.Module, target: Any) -> nn.Module:
        """The model as other programs get it."""

    def folder(self, path: Path, target: Any, columns: Sequence[str]) -> Dataset:
        """A folder of labelled images on which a model is measured; `columns` of a table in it, where one is asked."""
