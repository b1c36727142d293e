"""Whether a model does better than a guess that never looks at its input, in words for its user.

A guess is the same for every sample: the most frequent class, how often each label occurs, the mean, no object. It is
measured by the recipe's own metric.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import torch
from torch import Tensor, distributed
from torchmetrics import Metric

from leaven.runtime.run.samples import joined
from leaven.tasks.reports import percent
from leaven.terminal.score_text import score_text

_MOST_ROWS = 1024  # that a metric gets at once
_MOST_PIXELS = 50_000_000  # of which a guess is measured; more would take too long


def shown(name: str) -> str:
    """A name in a message, whatever characters it has."""
    return "`" + "".join(one if one.isprintable() else ascii(one)[1:-1] for one in name) + "`"


def one_class(name: str, count: int, total: int) -> str:
    """The line about a model that predicts one class for all samples."""
    return f"all {total:,} predictions are {shown(name)}; {count:,} of the {total:,} samples are"


def one_class_of_pixels(name: str, share: float) -> str:
    """The line about a model that predicts one class for all pixels."""
    return f"all pixels are predicted to be {shown(name)}; {percent(share)} of them are"


def nothing_found(images: int, objects: int) -> str:
    """The line about a model that finds no object in any image."""
    return f"no object is found in any of the {images:,} images, which have {objects:,}"


def nothing_right(objects: int) -> str:
    """The line about a model that finds objects where there are none."""
    return f"none of the {objects:,} objects is found; whatever is found is elsewhere, or of another category"


def same_labels(names: Sequence[str], count: int) -> str:
    """The line about a model that predicts the same labels for all samples."""
    return f"all {count:,} predictions are the same: {', '.join(map(shown, names)) or 'no label'}"


def same_numbers(numbers: Sequence[float], count: int) -> str:
    """The line about a model that predicts the same numbers for all samples."""
    return f"all {count:,} predictions are the same: {', '.join(f'{each:.6g}' for each in numbers)}"


def _is_constant(values: Tensor) -> bool:
    """Whether all samples have the same value."""
    return not bool((values != values[0]).any())


def _is_of_torchmetrics(metric: Metric) -> bool:
    """Whether a metric is not a user's function, of which nobody knows what it makes of a guess."""
    modules = [each.__module__ for each in type(metric).__mro__]
    return any(each.startswith("torchmetrics.") and each != Metric.__module__ for each in modules)


class Guess(ABC):
    """A guess that a model's predictions are compared with."""

    @abstractmethod
    def compared(self, outputs: Any, targets: Any) -> tuple[Tensor, Tensor]:
        """The predictions and the actual values of a batch that are remembered, as metrics get them."""

    @abstractmethod
    def all_the_same(self, predicted: Tensor, targets: Tensor) -> str:
        """A line that says so where all predictions are the same; else empty."""

    @abstractmethod
    def no_better(self, name: str, metric: Metric, score: float, targets: Tensor) -> str:
        """A line that says so where the score of the model is no better than that of the guess; else empty."""

    def is_always_right(self, targets: Tensor) -> bool:
        """Whether nothing can be better than the guess."""
        return _is_constant(targets)


class MeasuredGuess(Guess):
    """A guess that a metric can be given in place of what a model predicts."""

    @abstractmethod
    def outputs(self, targets: Tensor) -> Tensor:
        """The guess for one sample, in the form of outputs."""

    @abstractmethod
    def name(self, targets: Tensor) -> str:
        """The guess in words: ``always predicting `ham` ``."""

    def note(self, targets: Tensor) -> str:
        """How often the guess is right, where that can be counted."""
        return ""

    def batches(self, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The arguments of the metric, some samples at a time: the guess and the actual values."""
        row = self.outputs(targets)
        for some in targets.split(_MOST_ROWS):
            yield row.repeat(len(some), *(1 for _ in row.shape)), some

    def no_better(self, name: str, metric: Metric, score: float, targets: Tensor) -> str:
        if not _is_of_torchmetrics(metric):
            return ""
        measured = metric.clone().to("cpu")
        measured.sync_on_compute = False
        measured.reset()
        for outputs, some in self.batches(targets):
            measured.update(outputs, some)
        guess = float(measured.compute())
        if not (score >= guess if metric.higher_is_better is False else score <= guess):
            return ""
        numbers = f"{name} {score_text(score)} against {score_text(guess)}{self.note(targets)}"
        return f"no better than {self.name(targets)}: {numbers}"


@dataclass(frozen=True)
class MostFrequentClass(MeasuredGuess):
    """Always the class that most of the samples have."""

    names: Sequence[str]

    def compared(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return outputs.argmax(dim=1), targets

    def outputs(self, targets: Tensor) -> Tensor:
        return torch.eye(len(self.names), dtype=torch.float64)[self._most(targets)]

    def name(self, targets: Tensor) -> str:
        return f"always predicting {shown(self.names[self._most(targets)])}"

    def note(self, targets: Tensor) -> str:
        most = self._most(targets)
        return f" ({int((targets == most).sum()):,} of {len(targets):,} samples are {shown(self.names[most])})"

    def all_the_same(self, predicted: Tensor, targets: Tensor) -> str:
        if not _is_constant(predicted):
            return ""
        first = int(predicted[0])
        return one_class(self.names[first], int((targets == first).sum()), len(predicted))

    def _most(self, targets: Tensor) -> int:
        return int(targets.bincount(minlength=len(self.names)).argmax())


@dataclass(frozen=True)
class LabelFrequencies(MeasuredGuess):
    """For every sample the same probabilities: how often each label occurs."""

    names: Sequence[str]

    def compared(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return outputs.sigmoid() > 0.5, targets.int()

    def outputs(self, targets: Tensor) -> Tensor:
        return targets.double().mean(dim=0)

    def name(self, targets: Tensor) -> str:
        return "predicting the same labels for every sample"

    def all_the_same(self, predicted: Tensor, targets: Tensor) -> str:
        if not _is_constant(predicted):
            return ""
        return same_labels(list(compress(self.names, predicted[0])), len(predicted))


@dataclass(frozen=True)
class TrainingMean(MeasuredGuess):
    """Always the mean of the training split; `measured` is what metrics are given."""

    measured: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

    def compared(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return self.measured(outputs, targets)

    def outputs(self, targets: Tensor) -> Tensor:
        zeros = torch.zeros(1, targets.shape[1] if targets.dim() > 1 else 1)  # targets are standardised for training
        return self.measured(zeros, zeros)[0][0].cpu()

    def name(self, targets: Tensor) -> str:
        return "always predicting the mean of training"

    def all_the_same(self, predicted: Tensor, targets: Tensor) -> str:
        if not _is_constant(predicted):
            return ""
        return same_numbers(predicted[0].reshape(-1).tolist(), len(predicted))


@dataclass(frozen=True)
class MostFrequentPixel(MeasuredGuess):
    """Always the class that most of the pixels have. Remembered is how many pixels of a batch have each class."""

    names: Sequence[str]
    measured: Callable[[Any, Any], tuple[Tensor, Tensor]]

    def compared(self, outputs: Any, targets: Any) -> tuple[Tensor, Tensor]:
        predicted, actual = self.measured(outputs, targets)
        is_known = actual >= 0
        return self._counted(predicted[is_known]), self._counted(actual[is_known])

    def _counted(self, pixels: Tensor) -> Tensor:
        return pixels.flatten().cpu().bincount(minlength=len(self.names))[None]

    def is_always_right(self, targets: Tensor) -> bool:
        return int((targets.sum(dim=0) > 0).sum()) < 2

    def outputs(self, targets: Tensor) -> Tensor:
        return targets.sum(dim=0).argmax()

    def batches(self, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        guess, counts = self.outputs(targets), targets.sum(dim=0)
        for at, count in enumerate(counts.tolist()):
            for start in range(0, count, 2**20):
                some = torch.full((min(2**20, count - start),), at)
                yield guess.expand(len(some)), some

    def no_better(self, name: str, metric: Metric, score: float, targets: Tensor) -> str:
        is_summed = not any(each.__module__.startswith("torchmetrics.segmentation") for each in type(metric).__mro__)
        is_small = int(targets.sum()) <= _MOST_PIXELS
        return super().no_better(name, metric, score, targets) if is_summed and is_small else ""

    def name(self, targets: Tensor) -> str:
        return f"always predicting {shown(self.names[int(self.outputs(targets))])}"

    def note(self, targets: Tensor) -> str:
        counts = targets.sum(dim=0)
        most = int(counts.argmax())
        return f" ({percent(float(counts[most] / counts.sum()))} of the pixels are {shown(self.names[most])})"

    def all_the_same(self, predicted: Tensor, targets: Tensor) -> str:
        counts, actual = predicted.sum(dim=0), targets.sum(dim=0)
        if int((counts > 0).sum()) != 1:
            return ""
        only = int(counts.argmax())
        return one_class_of_pixels(self.names[only], float(actual[only] / actual.sum()))


@dataclass(frozen=True)
class NoObjects(Guess):
    """Finding nothing. Remembered is how many objects are found in an image, and how many are there."""

    def compared(self, outputs: Any, targets: Any) -> tuple[Tensor, Tensor]:
        found, there = ([len(one["boxes"]) for one in each] for each in (outputs, targets))
        return torch.tensor(found), torch.tensor(there)

    def is_always_right(self, targets: Tensor) -> bool:
        return not int(targets.sum())

    def all_the_same(self, predicted: Tensor, targets: Tensor) -> str:
        return "" if int(predicted.sum()) else nothing_found(len(predicted), int(targets.sum()))

    def no_better(self, name: str, metric: Metric, score: float, targets: Tensor) -> str:
        return nothing_right(int(targets.sum())) if score == 0 and _is_of_torchmetrics(metric) else ""


@dataclass
class Judged:
    """The predictions of a model on a split, with its scores by metric; compared with the guess on request."""

    guess: Guess
    metrics: Mapping[str, Metric]
    monitor: str  # the score by which the best epoch is chosen
    split: str
    pairs: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    scores: Mapping[str, float] = field(default_factory=dict)
    own_columns: Mapping[str, Any] = field(default_factory=dict)  # of this process

    def add(self, outputs: Any, targets: Any) -> None:
        predicted, actual = self.guess.compared(outputs, targets)
        self.pairs.append((predicted.cpu(), actual.cpu()))

    def columns(self) -> dict[str, Any]:
        """What was measured of each sample; several processes ask together."""
        shares = of_all_processes([self.own_columns])
        return joined(shares) if all(shares) else {}

    def caveats(self) -> tuple[str, ...]:
        """The lines about the model that its user must know; several processes ask together."""
        pairs = of_all_processes(self.pairs)
        if not pairs:
            return ()
        predicted, actual = (torch.cat(batches) for batches in zip(*pairs, strict=True))
        if self.guess.is_always_right(actual):
            return ()
        caveat = self.guess.all_the_same(predicted, actual)
        wanted = self.monitor.partition(".")[2]
        name = wanted if wanted in self.metrics else next(iter(self.metrics), "")
        if not caveat and name in self.scores:
            caveat = self.guess.no_better(name, self.metrics[name], self.scores[name], actual)
        return (f"{self.split} split: {caveat}",) if caveat else ()


def of_all_processes(own: list[Any], group: Any = None) -> list[Any]:
    """The objects that each process has, one process after another."""
    if not distributed.is_available() or not distributed.is_initialized():
        return own
    gathered: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(gathered, own, group=group)
    return [one for each in gathered for one in each]
