"""Whether a model does better than a guess that never looks at its input, in words for its user.

A guess is the same for every sample: the most frequent class, how often each label occurs, the mean. It is measured by
the recipe's own metric. What is said has its numbers, and is said only where it is so.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, distributed
from torchmetrics import Metric

from leaven.formats.score_text import score_text

_MOST_ROWS = 1024  # that a metric gets at once


def shown(name: str) -> str:
    """A name in a message, whatever characters it has."""
    return "`" + "".join(one if one.isprintable() else ascii(one)[1:-1] for one in name) + "`"


def one_class(name: str, count: int, total: int) -> str:
    """The line about a model that predicts one class for all samples."""
    return f"all {total:,} predictions are {shown(name)}; {count:,} of the {total:,} samples are"


def _is_constant(values: Tensor) -> bool:
    """Whether all samples have the same value."""
    return not bool((values != values[0]).any())


def _is_of_torchmetrics(metric: Metric) -> bool:
    """Whether a metric is not a user's function, of which nobody knows what it makes of a guess."""
    modules = [each.__module__ for each in type(metric).__mro__]
    return any(each.startswith("torchmetrics.") and each != Metric.__module__ for each in modules)


class Guess(ABC):
    """What a model predicted, and what a guess in its place would be."""

    @abstractmethod
    def said(self, outputs: Any, targets: Any) -> tuple[Tensor, Tensor]:
        """What is remembered of a batch, as metrics get it: what was predicted, and what is so."""

    @abstractmethod
    def outputs(self, targets: Tensor) -> Tensor:
        """The guess for one sample, in the form of outputs."""

    @abstractmethod
    def name(self, targets: Tensor) -> str:
        """What the guess does: ``always predicting `ham` ``."""

    def note(self, targets: Tensor) -> str:
        """How often the guess is right, where that can be counted."""
        return ""

    @abstractmethod
    def all_the_same(self, said: Tensor, targets: Tensor) -> str:
        """A line that says so where all predictions are the same; else empty."""


@dataclass(frozen=True)
class MostFrequentClass(Guess):
    """Always the class that most of the samples have."""

    names: Sequence[str]

    def said(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return outputs.argmax(dim=1), targets

    def outputs(self, targets: Tensor) -> Tensor:
        return torch.eye(len(self.names), dtype=torch.float64)[self._most(targets)]

    def name(self, targets: Tensor) -> str:
        return f"always predicting {shown(self.names[self._most(targets)])}"

    def note(self, targets: Tensor) -> str:
        most = self._most(targets)
        return f" ({int((targets == most).sum()):,} of {len(targets):,} samples are {shown(self.names[most])})"

    def all_the_same(self, said: Tensor, targets: Tensor) -> str:
        first = int(said[0])
        if not _is_constant(said):
            return ""
        count = int((targets == first).sum())
        return one_class(self.names[first], count, len(said))

    def _most(self, targets: Tensor) -> int:
        return int(targets.bincount(minlength=len(self.names)).argmax())


@dataclass(frozen=True)
class LabelFrequencies(Guess):
    """For every sample the same probabilities: how often each label occurs."""

    names: Sequence[str]

    def said(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return outputs.sigmoid() > 0.5, targets.int()

    def outputs(self, targets: Tensor) -> Tensor:
        return targets.double().mean(dim=0)

    def name(self, targets: Tensor) -> str:
        return "predicting the same labels for every sample"

    def all_the_same(self, said: Tensor, targets: Tensor) -> str:
        if not _is_constant(said):
            return ""
        labels = [shown(name) for name, is_there in zip(self.names, said[0].tolist(), strict=True) if is_there]
        return f"all {len(said):,} predictions are the same: {', '.join(labels) or 'no label'}"


@dataclass(frozen=True)
class TrainingMean(Guess):
    """Always the mean of the training split; `measured` is what metrics are given."""

    measured: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

    def said(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return self.measured(outputs, targets)

    def outputs(self, targets: Tensor) -> Tensor:
        zeros = torch.zeros(1, targets.shape[1] if targets.dim() > 1 else 1)  # targets are standardised for training
        return self.measured(zeros, zeros)[0][0].cpu()

    def name(self, targets: Tensor) -> str:
        return "always predicting the mean of training"

    def all_the_same(self, said: Tensor, targets: Tensor) -> str:
        if not _is_constant(said):
            return ""
        return f"all {len(said):,} predictions are the same: {', '.join(f'{each:.6g}' for each in said[0].reshape(-1))}"


@dataclass
class Judged:
    """What a model predicted on a split, with its scores by metric; compared with the guess when it is asked for."""

    guess: Guess
    metrics: Mapping[str, Metric]
    monitor: str  # the score by which the best epoch is chosen
    split: str
    pairs: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    scores: Mapping[str, float] = field(default_factory=dict)

    def add(self, outputs: Any, targets: Any) -> None:
        said, actual = self.guess.said(outputs, targets)
        self.pairs.append((said.cpu(), actual.cpu()))

    def words(self) -> tuple[str, ...]:
        """What is to be said about the model; several processes ask together."""
        pairs = self._of_all_processes()
        if not pairs:
            return ()
        said, actual = (torch.cat(each) for each in zip(*pairs, strict=True))
        if _is_constant(actual):  # then the guess is right
            return ()
        found = self.guess.all_the_same(said, actual) or self._compared(actual)
        return (f"{self.split} split: {found}",) if found else ()

    def _compared(self, actual: Tensor) -> str:
        """A line that says so where the model is no better than the guess, by the metric that chooses the epoch."""
        wanted = self.monitor.partition(".")[2]
        name = wanted if wanted in self.metrics else next(iter(self.metrics), "")
        if name not in self.scores or not _is_of_torchmetrics(self.metrics[name]):
            return ""
        is_lower = self.metrics[name].higher_is_better is False
        model, guess = self.scores[name], self._score(self.metrics[name], actual)
        if not (model >= guess if is_lower else model <= guess):
            return ""
        told = f"{name} {score_text(model)} against {score_text(guess)}{self.guess.note(actual)}"
        return f"no better than {self.guess.name(actual)}: {told}"

    def _score(self, metric: Metric, actual: Tensor) -> float:
        """What the metric says of the guess."""
        measured = metric.clone().to("cpu")
        measured.sync_on_compute = False
        measured.reset()
        row = self.guess.outputs(actual)
        for targets in actual.split(_MOST_ROWS):
            measured.update(row.repeat(len(targets), *(1 for _ in row.shape)), targets)
        return float(measured.compute())

    def _of_all_processes(self) -> list[tuple[Tensor, Tensor]]:
        if not distributed.is_available() or not distributed.is_initialized():
            return self.pairs
        found: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(found, self.pairs)
        return [pair for each in found for pair in each]
