"""A run and its phases: epochs and batches, checkpoints, the best epoch."""

import argparse
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torchmetrics import Metric
from tqdm import tqdm

from leaven.runtime.plain.batches import Data, Split
from leaven.runtime.plain.failures import visible
from leaven.runtime.plain.seeding import derive_seed, seed_all
from leaven.runtime.plain.texts import to_device
from leaven.runtime.run.loggers import Logger
from leaven.runtime.run.optimizer_state import load_optimizer_state, optimizer_state_of
from leaven.runtime.run.precision import precision_of, use_precision

Criterion = Callable[[Tensor, Tensor], Tensor]
Metrics = Mapping[str, Metric]


def parse_again(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line; a resumed run gets the flags that it was started with, unless there are others."""
    args = parser.parse_args()
    if args.resume:
        parser.set_defaults(**json.loads((Path(args.resume) / "args.json").read_text()))
        args = parser.parse_args()
    return args


class Run:
    """A training run in a folder of its own. `monitor` is the score that decides which epoch is the best."""

    def __init__(
        self,
        args: argparse.Namespace,
        *,
        seed: int,
        monitor: str,
        precision: Any = "32-true",  #: if wrapped
        threads: int,  #: if threads
        lower_is_better: Sequence[str] = (),  #: if lower
        save_every: int = 1,  #: if save_every
        loggers: Iterable[Callable[[Path], Logger]] = (),  #: if loggers
    ) -> None:
        self.seed, self.monitor = seed, monitor
        self.caveat = ""  # about a model that did not learn
        self.is_quick = False  #: used
        self.lower_is_better = ("loss", *lower_is_better)  #: if lower
        self.save_every = save_every  #: if save_every
        self.precision = precision  #: if phase_precision
        self.fabric = Fabric(devices=1, precision=precision)  #: if wrapped
        self.fabric = Fabric(devices=1)  #: if fabric and not wrapped
        self.device = self.fabric.device  #: if fabric
        self.device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"  #: if not fabric
        self.folder = Path(args.resume or f"{args.output}/{datetime.now():%Y-%m-%d_%H-%M-%S}")
        self.folder.mkdir(parents=True, exist_ok=args.resume is not None)
        print(f"run {visible(self.folder)}")
        self.folder = self.folder.absolute()  # user code may change the working directory  #: if user_code
        if not args.resume:  #: if args
            (self.folder / "args.json").write_text(json.dumps({**vars(args), "resume": None}))
        self.saved = self.load("last.pt") or {"phase": -1, "threads": threads}  #: if threads
        self.saved = self.load("last.pt") or {"phase": -1, "threads": torch.get_num_threads()}  #: if not threads
        torch.set_num_threads(self.saved["threads"])  # sums of floats depend on it
        self.phases = self.epochs = 0  # so far
        self.optimizer_state: Mapping[str, Any] = {}  # what the phase before left  #: if keep_optimizer
        self.rows = 0  # that the loggers got  #: if loggers
        self.loggers = [make(self.folder) for make in loggers]  #: if loggers
        torch.manual_seed(derive_seed(seed))  #: if not user_code
        seed_all(seed)  #: if user_code

    def save(self, name: str, state: Mapping[str, Any]) -> None:
        """Write a file atomically: an interruption leaves the one from before."""
        torch.save(state, self.folder / f"{name}.new")
        os.replace(self.folder / f"{name}.new", self.folder / name)

    def load(self, name: str) -> Any:
        file = self.folder / name
        return torch.load(file, map_location="cpu", weights_only=True) if file.is_file() else None

    def load_best(self, model: nn.Module) -> None:  #: if phase_of_best
        """Load the best weights of the last phase; one without training has none."""
        best = self.load("best.pt")
        if best is not None and best["phase"] == self.phases - 1:
            model.load_state_dict(best["model"])

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, model: nn.Module) -> None:  #: if keep_optimizer
        """Let an optimizer continue with the state of the one in the phase before."""
        load_optimizer_state(self.optimizer_state, optimizer, model)

    def signed(self, name: str, score: float) -> float:  #: if lower
        """A score such that higher is better."""
        return -score if name.rpartition(".")[2] in self.lower_is_better else score

    def print(self, text: str) -> None:  #: used
        tqdm.write(visible(text))

    def finish(self, model: nn.Module, data: Data, scores: Mapping[str, float]) -> None:
        """Save the trained weights and what the outputs mean."""
        self.save("model.pth", model.state_dict())
        (self.folder / "target.json").write_text(json.dumps(data.target.to_json()))  #: if targets
        (self.folder / "classes.json").write_text(json.dumps(data.classes))  #: if not targets
        for logger in self.loggers:  #: if loggers
            logger.write(scores, self.rows)
            logger.close()
        print(visible("  ".join(f"{name} {score:.6g}" for name, score in scores.items())))  #: if numbers
        print(visible("  ".join(f"{name} {score:.4f}" for name, score in scores.items())))  #: if not numbers
        if self.caveat:
            print(visible(self.caveat))
        print(f"weights saved to {visible(self.folder / 'model.pth')}")


class Phase:
    """A phase of a run: its epochs and batches, its best epoch, and a checkpoint after every epoch."""

    def __init__(
        self,
        run: Run,
        name: str,
        model: nn.Module,
        data: Data,
        *,
        epochs: int,
        accumulate: int = 1,  #: if accumulate
        precision: Any = None,  #: if phase_precision
        compile: bool = False,  #: if compile
    ) -> None:
        self.run, self.name, self.model, self.data = run, name, model.to(run.device), data
        self.number, self.epochs_before, self.total_epochs = run.phases, run.epochs, epochs
        run.phases, run.epochs = run.phases + 1, run.epochs + epochs
        self.accumulate = accumulate  #: if accumulate
        self.compile = compile  #: if compile
        use_precision(run.fabric, precision_of(precision or run.precision))  #: if phase_precision
        self.batches_per_epoch = data.train.steps  #: used
        self.steps_per_epoch = math.ceil(data.train.steps / accumulate)  #: if accumulate
        self.steps_per_epoch = data.train.steps  #: if not accumulate
        self.total_steps = epochs * self.steps_per_epoch
        self.epoch = epochs if run.saved["phase"] > self.number else 0
        self.batch = 0  #: used
        self.losses: list[Tensor] = []
        self.scores: dict[str, float] = {}
        self.best = (-math.inf, -math.inf)  # score, and validation loss negated  #: if best
        self.peak, self.stale = -math.inf, 0  # the best score for early stopping, and epochs since  #: if early_stop
        self.is_over = self.is_stopped_early = False  #: if early_stop
        self.can_be_best = True  # a technique may rule out the current epoch  #: if used can_be_best
        self.state: dict[str, Any] = {}  # what a checkpoint holds

    @property
    def is_step(self) -> bool:  #: if accumulate
        """Whether the current batch completes an optimizer step: every so many do, and the last."""
        return (self.batch + 1) % self.accumulate == 0 or self.batch + 1 == self.data.train.steps

    @property
    def batches_in_step(self) -> int:  #: if accumulate
        """How many batches the current optimizer step averages: `accumulate`, or fewer at the end of an epoch."""
        first = self.batch - self.batch % self.accumulate
        return min(self.accumulate, self.data.train.steps - first)

    @property
    def ends_epoch(self) -> bool:  #: used
        """Whether the current batch is the last of its epoch."""
        return self.batch + 1 == self.data.train.steps

    def setup(self, model: Any, optimizer: Any, schedule: Any, /, **techniques: Any) -> tuple[Any, Any]:
        """Set up model and optimizer for the precision, and load the state of an interrupted run."""  #: if wrapped
        """Load the state of an interrupted run."""  #: if not wrapped
        self.state = {"model": self.model, "optimizer": optimizer, "schedule": schedule, **techniques}
        self.state = {name: part for name, part in self.state.items() if hasattr(part, "state_dict")}  #: if own_loss
        if self.compile:  #: if compile
            model = torch.compile(model)
        model, optimizer = self.run.fabric.setup(model, optimizer)  #: if wrapped
        saved = self.run.saved
        if saved["phase"] == self.number:
            self.epoch, self.best = saved["epoch"], saved["best"]  #: if best
            self.epoch = saved["epoch"]  #: if not best
            self.peak, self.stale = saved["peak"], saved["stale"]  #: if early_stop
            self.is_over, self.is_stopped_early = saved["is_over"], saved["is_stopped_early"]  #: if early_stop
            self.run.rows = saved["rows"]  #: if loggers
            self.run.fabric.strategy.precision.load_state_dict(saved["precision"])  #: if wrapped
            for name, part in self.state.items():
                part.load_state_dict(saved["state"][name])
        return model, optimizer

    def epochs(self) -> Iterator[int]:  #: if simple_epochs
        """The epochs that are left. After each, the weights are saved if they are the best, and a checkpoint."""
        while self.epoch < self.total_epochs:
            yield self.epoch
            monitored = self.scores.get(self.run.monitor, -self.scores["train.loss"])  #: if maybe_empty
            score = monitored, -self.scores.get("val.loss", math.inf)  #: if maybe_empty
            score = self.scores[self.run.monitor], -self.scores["val.loss"]  #: if not maybe_empty
            if score > self.best:
                self.best = score
                self.run.save("best.pt", self.model.state_dict())
            self.epoch += 1
            self.batch = 0  #: if used batch
            state = {name: part.state_dict() for name, part in self.state.items()}
            where = {"phase": self.number, "epoch": self.epoch, "best": self.best, "threads": torch.get_num_threads()}
            self.run.save("last.pt", {**where, "state": state})

    def epochs(self) -> Iterator[int]:  #: if not early_stop and not simple_epochs
        """The epochs that are left, with a checkpoint after each."""
        while self.epoch < self.total_epochs:
            self.can_be_best = True  #: if used can_be_best
            yield self.epoch
            if self.can_be_best:  #: if used can_be_best
                self.keep_best()
            self.keep_best()  #: if best and not used can_be_best
            self.epoch += 1
            self.batch = 0  #: if used batch
            if self.epoch == self.total_epochs or self.epoch % self.run.save_every == 0:  #: if save_every
                self.save()
            self.save()  #: if not save_every

    def epochs(
        self,
        *,
        stop_early: str | None = None,
        patience: int = 0,
        at_least: float = 0.0,  #: if at_least
    ) -> Iterator[int]:  #: if early_stop
        """The epochs that are left, with a checkpoint after each. With `stop_early`, training ends when that score has
        not improved for `patience` epochs."""
        while self.epoch < self.total_epochs and not self.is_over:
            self.can_be_best = True  #: if used can_be_best
            yield self.epoch
            if self.can_be_best:  #: if used can_be_best
                self.keep_best()
                self.count_stale(stop_early or self.run.monitor, at_least)  #: if at_least
                self.count_stale(stop_early or self.run.monitor)  #: if not at_least
            self.keep_best()  #: if not used can_be_best
            self.count_stale(stop_early or self.run.monitor, at_least)  #: if at_least and not used can_be_best
            self.count_stale(stop_early or self.run.monitor)  #: if not at_least and not used can_be_best
            self.epoch += 1
            self.batch = 0  #: if used batch
            self.is_stopped_early = stop_early is not None and self.stale >= max(1, patience)
            self.is_over = self.is_stopped_early or self.epoch == self.total_epochs
            if self.is_over or self.epoch % self.run.save_every == 0:  #: if save_every
                self.save()
            self.save()  #: if not save_every

    def count_stale(self, monitor: str, at_least: float) -> None:  #: if at_least
        score = self.score(monitor)
        is_better = score > self.peak + at_least
        self.peak, self.stale = (score, 0) if is_better else (self.peak, self.stale + 1)

    def count_stale(self, monitor: str) -> None:  #: if early_stop and not at_least
        score = self.score(monitor)
        self.peak, self.stale = (score, 0) if score > self.peak else (self.peak, self.stale + 1)

    def score(self, monitor: str) -> float:  #: if lower
        """A score of the epoch, such that higher is better; the training loss where it was not measured."""
        monitor = monitor if monitor in self.scores else "train.loss"
        return self.run.signed(monitor, self.scores[monitor])

    def score(self, monitor: str) -> float:  #: if early_stop and not lower
        return self.scores.get(monitor, -self.scores["train.loss"])

    def score_of(self, scores: Mapping[str, float]) -> float | None:  #: used
        """The score that decides which epoch is the best, such that higher is better; None where it is not there."""
        monitor = self.run.monitor
        return self.run.signed(monitor, scores[monitor]) if monitor in scores else None  #: if lower
        return scores.get(monitor)  #: if not lower

    def keep_best(self) -> None:  #: if best and not simple_epochs
        """Save the weights if they are the best so far."""
        score = self.score(self.run.monitor), -self.scores.get("val.loss", math.inf)  #: if lower
        monitored = self.scores.get(self.run.monitor, -self.scores["train.loss"])  #: if not lower
        score = monitored, -self.scores.get("val.loss", math.inf)  #: if not lower
        if score > self.best:
            self.best = score
            self.run.save("best.pt", {"phase": self.number, "model": self.measured.state_dict()})  #: if phase_of_best and averaged
            self.run.save("best.pt", {"phase": self.number, "model": self.model.state_dict()})  #: if phase_of_best and not averaged
            self.run.save("best.pt", self.measured.state_dict())  #: if averaged and not phase_of_best
            self.run.save("best.pt", self.model.state_dict())  #: if not averaged and not phase_of_best

    def save(self) -> None:  #: if not simple_epochs
        """Write a checkpoint from which the run can be resumed."""
        where: dict[str, Any] = {"phase": self.number, "epoch": self.epoch, "threads": torch.get_num_threads()}
        where["best"] = self.best  #: if best
        where |= {"peak": self.peak, "stale": self.stale}  #: if early_stop
        where |= {"is_over": self.is_over, "is_stopped_early": self.is_stopped_early}  #: if early_stop
        where["rows"] = self.run.rows  #: if loggers
        where["precision"] = self.run.fabric.strategy.precision.state_dict()  #: if wrapped
        self.run.save("last.pt", {**where, "state": {name: part.state_dict() for name, part in self.state.items()}})
        self.run.save(f"phase-{self.number}-epoch-{self.epoch}.pt", self.model.state_dict())  #: if keep_all

    def batches(self, train: Split) -> Iterator[tuple[Any, Tensor]]:
        """The batches of an epoch; what is drawn in each follows from (seed, epoch, batch)."""
        epoch = self.epochs_before + self.epoch
        batches = tqdm(train.batches(epoch), total=train.steps, leave=False, disable=None)
        for self.batch, (inputs, targets) in enumerate(batches):  #: if used batch
            torch.manual_seed(derive_seed(self.run.seed, epoch, self.batch, 0))  #: if not user_code
            seed_all(self.run.seed, epoch, self.batch, 0)  #: if user_code
            own = getattr(self.state["optimizer"], "generator", None)  #: if optimizer_generator
            if isinstance(own, torch.Generator):  #: if optimizer_generator
                own.manual_seed(torch.initial_seed())
            yield to_device(inputs, self.run.device), targets.to(self.run.device)  #: if texts
            yield inputs.to(self.run.device), targets.to(self.run.device)  #: if not texts
        for batch, (inputs, targets) in enumerate(batches):  #: if not used batch
            torch.manual_seed(derive_seed(self.run.seed, epoch, batch, 0))  #: if not user_code
            seed_all(self.run.seed, epoch, batch, 0)  #: if user_code
            own = getattr(self.state["optimizer"], "generator", None)  #: if optimizer_generator
            if isinstance(own, torch.Generator):  #: if optimizer_generator
                own.manual_seed(torch.initial_seed())
            yield to_device(inputs, self.run.device), targets.to(self.run.device)  #: if texts
            yield inputs.to(self.run.device), targets.to(self.run.device)  #: if not texts

    def clip_gradients(self, optimizer: Any, *, max_norm: float) -> None:  #: if clip
        """Scale the gradients down to a norm."""
        self.run.fabric.clip_gradients(self.model, optimizer, max_norm=max_norm)  #: if wrapped
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]  #: if not wrapped
        nn.utils.clip_grad_norm_(parameters, max_norm, error_if_nonfinite=True)  #: if not wrapped

    def log(self, loss: Tensor) -> None:
        self.losses.append(loss.detach())

    def end_epoch(
        self,
        scores: Mapping[str, float],
        weights: nn.Module | None = None,  #: if averaged
    ) -> None:
        """Print the scores of an epoch."""
        loss = sum(loss.item() for loss in self.losses) / len(self.losses)
        self.losses.clear()
        if not math.isfinite(loss):
            raise SystemExit(f"the loss is {loss} in epoch {self.epoch + 1}; try a smaller learning rate")
        self.scores = {"train.loss": loss, **scores}
        self.measured = self.model if weights is None else weights  #: if averaged
        self.run.rows += 1  #: if loggers
        for logger in self.run.loggers:  #: if loggers
            logger.write({**self.scores, "lr": self.state["optimizer"].param_groups[0]["lr"]}, self.run.rows)
        told = "  ".join(f"{name} {score:.6g}" for name, score in self.scores.items())  #: if numbers
        told = "  ".join(f"{name} {score:.4f}" for name, score in self.scores.items())  #: if not numbers
        print(visible(f"{self.name} {self.epoch + 1}/{self.total_epochs}  {told}"))

    def finish(
        self,
        *,  #: if keep_optimizer
        keep_optimizer: bool = False,  #: if keep_optimizer
    ) -> None:  #: if hands_over
        """Leave the last weights to the next phase, or after early stopping the best."""  #: if early_stop
        """Leave the last weights to the next phase."""  #: if not early_stop
        name = f"phase-{self.number}.pt"
        # for what the next phase draws before its first batch
        torch.manual_seed(derive_seed(self.run.seed, -1 - self.number))  #: if not user_code
        seed_all(self.run.seed, -1 - self.number)  #: if user_code
        left = self.run.load(name)
        if left is not None:  # the run was interrupted after it
            self.model.load_state_dict(left["model"])
            self.run.optimizer_state = left["optimizer_state"]  #: if keep_optimizer
            return
        if self.is_stopped_early:  #: if early_stop
            self.model.load_state_dict(self.run.load("best.pt")["model"])  #: if phase_of_best
            self.model.load_state_dict(self.run.load("best.pt"))  #: if not phase_of_best
        if self.total_epochs:  # a phase without training keeps the state of the phase before  #: if keep_optimizer
            kept = optimizer_state_of(self.state["optimizer"], self.model) if keep_optimizer else {}
            self.run.optimizer_state = kept
        left = {"model": self.model.state_dict()}
        left["optimizer_state"] = self.run.optimizer_state  #: if keep_optimizer
        self.run.save(name, left)
