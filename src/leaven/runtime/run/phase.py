"""A stretch of training: which epochs and batches are left, what is noted of them, and when it ends.

`epochs` and `batches` are the program's two loops; `log` takes note of a batch, `record` ends an epoch.
"""

import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leaven.formats.run_folder import BEST, LAST, epoch_file, leaving_file
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Failure, Stopped
from leaven.runtime.run import progress
from leaven.runtime.run.commands import to_resume
from leaven.runtime.run.optimizer_state import optimizer_state_of
from leaven.runtime.seeding import seed_all

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run

QUICK_BATCHES = 2
_DRAWN_OVER_ALL = ("total_steps", "_schedule_phases")  # of OneCycleLR: a longer run has a longer cycle
LOOK_EVERY = 20  # batches, where reading a loss makes the processor wait for another device


class Phase:
    """One phase of a run. `epoch` and `batch` count what is done."""

    def __init__(
        self, run: "Run", name: str, number: int, epochs: int, data: Data, accumulate: int, epochs_before: int
    ) -> None:
        self.run = run
        self.name = name
        self.number = number
        self.total = min(epochs, 1) if run.is_quick else epochs
        self.data = data
        self.accumulate = accumulate
        self.epochs_before = epochs_before
        self.batches_per_epoch = data.train.steps(run.fabric.world_size)
        if run.is_quick:
            self.batches_per_epoch = min(self.batches_per_epoch, QUICK_BATCHES)
        self.epoch = 0
        self.batch = 0
        self.losses = _Losses()
        self.best: float | None = None
        self.best_loss = math.inf  # tells apart epochs whose best score is the same
        self.peak: float | None = None  # of the score that early stopping watches
        self.stale = 0  # epochs since then
        self.can_be_best = True  # whether the epoch at hand is one that could be kept; a technique may say no
        self.is_over = False
        self.is_stopped = False  # by early stopping
        self.parts: dict[str, Any] = {}
        self._row: Mapping[str, Any] | None = None
        self._shape = torch.Size()  # of the images at hand
        self._began = time.monotonic()
        self._saved_at = time.monotonic()

    @property
    def steps_per_epoch(self) -> int:
        """How many times the optimizer moves the weights in an epoch."""
        return math.ceil(self.batches_per_epoch / self.accumulate)

    @property
    def steps(self) -> int:
        """How many times the optimizer moves the weights in the whole phase."""
        return self.total * self.steps_per_epoch

    @property
    def is_step(self) -> bool:
        """Whether the batch at hand completes a step: with `accumulate`, every so many, and the last of an epoch."""
        return (self.batch + 1) % self.accumulate == 0 or self.ends_epoch

    @property
    def ends_epoch(self) -> bool:
        """Whether the batch at hand is the last of its epoch."""
        return self.batch + 1 == self.batches_per_epoch

    # -- saving and going on

    def restore(self, **parts: Any) -> None:
        """Name what belongs to the phase's state (module, optimizer, …), and take up what an interrupted run left."""
        self.parts = {name: _bare(part) for name, part in parts.items()}
        saved = self.run.saved
        if self.run.is_past(self.number):
            self.is_over = True
            return
        if saved is None or saved["phase"] < self.number:
            return
        longer = {k: v for k, v in vars(self.parts["schedule"]).items() if k in _DRAWN_OVER_ALL}
        for name, part in self.parts.items():
            state = saved["parts"][name]
            is_drawn_anew = name == "schedule" and self.total > saved["planned"]
            part.load_state_dict({**state, **longer} if is_drawn_anew else state)
        self.run.restore_precision()
        self.epoch, self.batch = saved["epoch"], saved["batch"]
        self.losses = _Losses(*saved["losses"]) if self.run.fabric.is_global_zero else _Losses()
        self.best, self.best_loss = saved["best"], saved["best_loss"]
        self.peak, self.stale = saved["peak"], saved["stale"]
        self.is_over = saved["is_over"] and self.total <= saved["planned"]
        self.is_stopped = self.is_over and saved["is_stopped"]
        if self.total > saved["planned"]:
            self.save()  # from now on the longer way is the plan

    def save(self) -> None:
        """Write a checkpoint from which the phase can go on."""
        self._saved_at = time.monotonic()
        self.run.save(
            {
                "phase": self.number,
                "planned": self.total,
                "epoch": self.epoch,
                "batch": self.batch,
                "losses": self._losses_of_all(),
                "best": self.best,
                "best_loss": self.best_loss,
                "peak": self.peak,
                "stale": self.stale,
                "is_over": self.is_over,
                "is_stopped": self.is_stopped,
                "parts": {name: part.state_dict() for name, part in self.parts.items()},
            }
        )

    def finish(self, module: nn.Module, optimizer: Any = None) -> None:
        """Leave the weights to the next phase: after early stopping the best, else those in the model. With an
        optimizer, also what that has gathered. A phase that was over before gives what it left then."""
        name = leaving_file(self.number)
        seed_all(self.run.seed, -1 - self.number)  # what the next one draws before its first batch
        if self.run.is_past(self.number):
            self.run.load_finished(name, module)
            return
        best = self.run.best(self.number) if self.is_stopped else None
        if best is not None:
            module.load_state_dict(best)
        if self.total:  # what only prepares has no optimizer of its own
            self.run.optimizer_state = optimizer_state_of(_bare(optimizer), module) if optimizer is not None else {}
        if self.run.fabric.is_global_zero:
            self.run.write(name, {"module": module.state_dict(), "gathered": self.run.optimizer_state})

    def _is_time_to_save(self) -> bool:
        saving = self.run.checkpoint
        if saving.steps and (self.batch // self.accumulate) % saving.steps == 0:
            return True
        return bool(saving.minutes) and self._agreed_minutes() >= (saving.minutes or 0)

    def _agreed_minutes(self) -> float:
        return float(self.run.fabric.broadcast((time.monotonic() - self._saved_at) / 60))

    # -- the program's loops

    def epochs(self, *, stop_early: str | None = None, patience: int = 0, at_least: float = 0.0) -> Iterator[int]:
        """The epochs that are left. With `stop_early`, ends when that score has not improved for `patience` epochs,
        and goes on with the weights that had the best."""
        while self.epoch < self.total and not self.is_over:
            self._row, self.can_be_best = None, True
            yield self.epoch
            if self._row is None:
                raise Failure("the program did not call `phase.end_epoch` at the end of an epoch")
            if self.can_be_best:
                self._keep_best(is_needed=stop_early is not None)
                self._count_stale(stop_early or self.run.monitor, at_least)
            self.epoch += 1
            self.batch, self.losses = 0, _Losses()
            stops = stop_early is not None and self.stale >= max(1, patience)
            self.is_over = stops or self.epoch >= self.total
            self.is_stopped = stops
            if stops:
                since = f"{self.stale} epoch{'s' * (self.stale > 1)}"
                self.run.print(f"{self.name}: {stop_early} has not improved for {since}; the best weights go on")
            if self.is_over or self.epoch % self.run.checkpoint.epochs == 0:
                self.save()
            if self.run.checkpoint.keep == "all" and self.run.fabric.is_global_zero:
                self.run.write(epoch_file(self.number, self.epoch), self._weights(self.parts["module"]))

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of the current epoch that are left, on the right device, with chance sown for each."""
        run, fabric = self.run, self.run.fabric
        epoch = self.epochs_before + self.epoch
        bar = progress.Progress(self._title(), self.batches_per_epoch, self.batch, fabric.is_global_zero)
        self._began, seen = time.monotonic(), 0
        batches = self.data.train.batches(epoch, first=self.batch, rank=fabric.global_rank, world=fabric.world_size)
        try:
            while self.batch < self.batches_per_epoch:
                run.before_batch(self)
                images, labels = self._next(batches)
                self._seed(epoch)
                self._shape = images.shape
                yield fabric.to_device((images, labels))
                is_step = self.is_step
                self.batch += 1
                seen += len(labels) * fabric.world_size
                bar.advance(self.losses.last, seen / (time.monotonic() - self._began), self._last_score())
                if is_step and run.stop.is_pressed():
                    self._look()
                    self.save()
                    raise Stopped(f"stopped and saved; `{to_resume(run.folder)}` goes on")
                if is_step and self.batch < self.batches_per_epoch and self._is_time_to_save():
                    self._look()
                    self.save()
        finally:
            bar.close()

    def _seed(self, epoch: int) -> None:
        """Chance for one batch; Python's and NumPy's too, as code of the user's may draw from them."""
        run = self.run
        seed_all(run.seed, epoch, self.batch, run.fabric.global_rank)
        own = getattr(self.parts["optimizer"], "generator", None)  # as AdaHessian has
        if isinstance(own, torch.Generator):
            own.manual_seed(torch.initial_seed())

    def _next(self, batches: Iterator[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        try:
            return next(batches)
        except StopIteration:
            raise Failure("the data ended before the epoch did", "it must give the same items every time") from None
        except Failure:
            if self.run.stop.is_pressed_here:  # whoever ended the run ended the processes that load data too
                raise Stopped(f"stopped; `{to_resume(self.run.folder)}` goes on from the last save") from None
            raise

    def log(self, loss: Tensor) -> None:
        """Take note of a batch's loss; one that is not a number ends the run."""
        self.losses.waiting.append(loss.detach())
        if loss.device.type == "cpu" or len(self.losses.waiting) >= LOOK_EVERY:
            self._look()

    def _look(self) -> None:
        """Read the losses that were noted."""
        first = self.batch + 1 - len(self.losses.waiting)
        for number, value in enumerate(self.losses.read(), first + 1):
            if not math.isfinite(value):
                raise Failure(
                    f'the loss is {value} at batch {number} of epoch {self.epoch + 1} in phase "{self.name}"',
                    f"try a smaller learning rate; the last good weights are in {self.run.folder / LAST}"
                    if (self.run.folder / LAST).is_file()
                    else "try a smaller learning rate",
                    about="optimizer = ",
                )

    def end_epoch(self, scores: Mapping[str, float], weights: nn.Module | None = None) -> None:
        """End the epoch: note its scores, and keep the weights if they are the best so far."""
        self._look()
        seconds = time.monotonic() - self._began
        told = {"train.loss": self._mean_loss(), **scores}
        rate = self.parts["optimizer"].param_groups[0]["lr"]
        row = {"phase": self.name, "epoch": self.epoch + 1, **told, "lr": rate, "seconds": round(seconds, 3)}
        self._row = row
        self._best_of = weights if weights is not None else self.parts["module"]
        self.run.log_epoch(row, {**told, "lr": rate})
        self.run.print(progress.epoch_line(self._title(), told, seconds))

    def _mean_loss(self) -> float:
        """The mean over every process's batches."""
        total, count = self._losses_of_all()
        return total / count if count else math.nan

    def _losses_of_all(self) -> tuple[float, float]:
        """The sum of the losses in every process, and of how many."""
        fabric = self.run.fabric
        if fabric.world_size == 1:
            return self.losses.total, self.losses.count
        sums = torch.tensor([self.losses.total, float(self.losses.count)], dtype=torch.float64)
        total, count = fabric.all_reduce(fabric.to_device(sums), reduce_op="sum").tolist()  # type: ignore[union-attr]
        return total, count

    # -- the best epoch

    def _score(self, watch: str) -> float:
        """A score of the epoch, such that more is better; where there is none, as without validation, the loss."""
        assert self._row is not None
        watch = watch if watch in self._row else "train.loss"
        score: float = self._row[watch]
        return -score if watch.rpartition(".")[2] in self.run.lower_is_better else score

    def _count_stale(self, watch: str, at_least: float) -> None:
        score = self._score(watch)
        is_better = self.peak is None or score > self.peak + at_least
        self.peak, self.stale = (score, 0) if is_better else (self.peak, self.stale + 1)

    def _keep_best(self, *, is_needed: bool) -> None:
        assert self._row is not None
        score, loss = self._score(self.run.monitor), self._row.get("val.loss", math.inf)
        if self.best is not None and (score, -loss) <= (self.best, -self.best_loss):
            return
        self.best, self.best_loss = score, loss
        self.run.best_epochs[self.name] = self.epoch + 1
        if self.run.fabric.is_global_zero and (self.run.checkpoint.keep != "last" or is_needed):
            self.run.write(BEST, self._weights(self._best_of))
        self.run.fabric.barrier()

    def _weights(self, module: nn.Module) -> dict[str, Any]:
        return {"module": module.state_dict(), "phase": self.number, "epoch": self.epoch + 1}

    def score_of(self, scores: Mapping[str, float]) -> float | None:
        """The score that says which epoch is the best, the higher the better; None where it was not measured."""
        watch = self.run.monitor
        if watch not in scores:
            return None
        return -scores[watch] if watch.rpartition(".")[2] in self.run.lower_is_better else scores[watch]

    # -- memory

    def batch_that_fits(self) -> int | None:
        """After a batch was too large: the largest half, quarter, … of it that can be trained on here."""
        module, fabric = self.parts["module"], self.run.fabric
        size = self._shape[0] // 2
        while size >= 1:
            try:
                outputs = module(torch.zeros((size, *self._shape[1:]), device=fabric.device))
                outputs.sum().backward()
                return size * fabric.world_size
            except (RuntimeError, MemoryError):
                module.zero_grad()
                size //= 2
        return None

    # -- what is told

    def _title(self) -> str:
        return f"{self.name} {self.epoch + 1}/{self.total}"

    def _last_score(self) -> str:
        score = self.run.rows[-1].get(self.run.monitor) if self.run.rows else None
        return "" if score is None else f"{self.run.monitor} {score:.4f}"


class _Losses:
    """A running mean, kept as sum and count so that it can be saved exactly; `waiting` were not read yet."""

    def __init__(self, total: float = 0.0, count: int = 0) -> None:
        self.total = total
        self.count = count
        self.last: float | None = None
        self.waiting: list[Tensor] = []

    def read(self) -> list[float]:
        if not self.waiting:
            return []
        values: list[float] = torch.stack(self.waiting).tolist() if len(self.waiting) > 1 else [self.waiting[0].item()]
        self.waiting.clear()
        self.total += sum(values)
        self.count += len(values)
        self.last = values[-1]
        return values


def _bare(part: Any) -> Any:
    """An optimizer that Fabric wrapped, as it was; all else as it is."""
    inner = getattr(part, "optimizer", None) if isinstance(part, torch.optim.Optimizer) else None
    return inner if isinstance(inner, torch.optim.Optimizer) else part
