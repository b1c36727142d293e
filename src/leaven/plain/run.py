"""A run and its phases: the folder, the epochs, and the checkpoints."""

import json
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from torch.optim import Optimizer
from tqdm import tqdm

from leaven.plain.batches import Data
from leaven.plain.failures import visible
from leaven.runtime.run.optimizer_state import load_optimizer_state, optimizer_state_of
from leaven.runtime.seeding import derive_seed


class Run:
    """A training run in a folder of its own."""

    is_quick = False
    optimizer_state: ClassVar[dict[str, Any]] = {}  # what the phase before left
    loggers: Sequence[Any] = ()
    fabric: Any = None  # of the current phase

    def __init__(self, folder: str, *, seed: int) -> None:
        self.folder, self.seed = Path(folder).absolute(), seed
        self.folder.mkdir(parents=True, exist_ok=True)
        self.device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        self.phases = self.epochs = 0  # so far
        torch.manual_seed(derive_seed(seed))

    def save(self, name: str, state: Mapping[str, Any]) -> None:
        """Write a file atomically: an interruption leaves the one from before."""
        torch.save(state, self.folder / f"{name}.new")
        (self.folder / f"{name}.new").replace(self.folder / name)

    def keep_optimizer_state(self, optimizer: Optimizer, model: nn.Module) -> None:
        self.optimizer_state.update(optimizer_state_of(optimizer, model))

    def load_optimizer_state(self, optimizer: Optimizer, model: nn.Module) -> None:
        """Let an optimizer continue with the state of the one in the phase before."""
        load_optimizer_state(self.optimizer_state, optimizer, model)

    def print(self, text: str) -> None:
        tqdm.write(visible(text))


class Phase:
    """A phase of a run, and its progress."""

    batch = 0  # of the current epoch
    can_be_best = True  # a technique may rule out the current epoch
    monitor = ""  # the score by which techniques compare epochs
    lower_is_better = False

    def __init__(self, run: Run, name: str, model: nn.Module, data: Data, *, epochs: int) -> None:
        self.run, self.name, self.model, self.data = run, name, model.to(run.device), data
        self.number, self.epochs_before, self.total_epochs = run.phases + 1, run.epochs, epochs
        run.phases, run.epochs = self.number, run.epochs + epochs
        self.total_steps = epochs * math.ceil(len(data.train.keys(0)) / data.train.batch_size)
        self.epoch, self.best = 0, (-math.inf, -math.inf)  # score, and validation loss negated

    @property
    def batches_per_epoch(self) -> int:
        return self.total_steps // max(1, self.total_epochs)

    @property
    def steps_per_epoch(self) -> int:
        return self.batches_per_epoch

    @property
    def ends_epoch(self) -> bool:
        """Whether the current batch is the last of its epoch."""
        return self.batch + 1 == self.batches_per_epoch

    def score_of(self, scores: Mapping[str, float]) -> float | None:
        """The score that decides which epoch is the best, such that higher is better; None where it is not there."""
        score = scores.get(self.monitor)
        return -score if score is not None and self.lower_is_better else score

    def clip_gradients(self, optimizer: Any, *, max_norm: float) -> None:
        """Scale the gradients down to a norm."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        nn.utils.clip_grad_norm_(parameters, max_norm, error_if_nonfinite=True)


class AccumulatingPhase(Phase):
    """A phase in which an optimizer step averages several batches."""

    def __init__(self, *args: Any, accumulate: int, **named: Any) -> None:
        super().__init__(*args, **named)
        self.accumulate, self.batch_count = accumulate, super().batches_per_epoch
        self.total_steps = self.total_epochs * self.steps_per_epoch

    @property
    def batches_per_epoch(self) -> int:
        return self.batch_count

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.batch_count / self.accumulate)

    @property
    def is_step(self) -> bool:
        """Whether the current batch completes an optimizer step: every so many do, and the last."""
        return (self.batch + 1) % self.accumulate == 0 or self.batch + 1 == self.batches_per_epoch

    @property
    def batches_in_step(self) -> int:
        """How many batches the current optimizer step averages: `accumulate`, or fewer at the end of an epoch."""
        first = self.batch - self.batch % self.accumulate
        return min(self.accumulate, self.batches_per_epoch - first)


class MonitoredPhase(Phase):
    """A phase whose techniques compare epochs by a score."""

    def __init__(self, *args: Any, monitor: str, lower_is_better: bool = False, **named: Any) -> None:
        super().__init__(*args, **named)
        self.monitor, self.lower_is_better = monitor, lower_is_better


class EarlyStopping:
    """Ends a phase when a score has not improved for `patience` epochs."""

    def __init__(self, *, patience: int = 0, at_least: float = 0.0) -> None:
        self.patience, self.at_least = patience, at_least
        self.best, self.stale = -math.inf, 0  # epochs since then

    @property
    def is_over(self) -> bool:
        return self.stale >= max(1, self.patience)

    def count(self, score: float) -> None:
        is_better = score > self.best + self.at_least
        self.best, self.stale = (score, 0) if is_better else (self.best, self.stale + 1)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "stale": self.stale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best, self.stale = state["best"], state["stale"]


def report_channels(run: Run, text: str, title: str, had: Mapping[str, int], has: Mapping[str, int]) -> None:
    """Print a text about channels that were taken out; the title is that of a figure, which only Leaven draws."""
    run.print(text)


def parse_again(parser: ArgumentParser) -> Namespace:
    """The command line; a resumed run gets the flags that it was started with, unless there are others."""
    args = parser.parse_args()
    if args.resume:
        parser.set_defaults(**json.loads((Path(args.resume) / "args.json").read_text()))
        args = parser.parse_args()
    return args
