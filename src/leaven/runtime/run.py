"""A run: phases of epochs of batches, saved so that it can be interrupted anywhere and goes on with the same result.

The loop itself stands in the program, where it can be read and changed. Here is what surrounds it: which epoch and
batch come next, what is saved when, what is recorded, when to stop.
"""

import argparse
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn

from leaven.runtime import folder as run_folder
from leaven.runtime import progress
from leaven.runtime.batches import Data
from leaven.runtime.chance import sow
from leaven.runtime.failures import Failure, Stopped
from leaven.runtime.records import Recorder

QUICK_BATCHES = 2
LOWER_IS_BETTER = ("loss",)


class Run:
    """A whole training, in a folder of its own."""

    def __init__(
        self,
        args: argparse.Namespace,
        fabric: Fabric,
        *,
        seed: int,
        watch: str,
        recorders: Sequence[Callable[[Path], Recorder]] = (),
        checkpoint_steps: int | None = None,
    ) -> None:
        self.fabric = fabric
        self.seed = seed
        self.watch = watch
        self.is_quick: bool = args.quick
        self.more_epochs: int = args.more_epochs
        self.checkpoint_steps = checkpoint_steps
        self.folder = Path(fabric.broadcast(str(_open_folder(args)) if fabric.is_global_zero else ""))
        self.saved = _read_checkpoint(self.folder / "last.ckpt") if args.resume else None
        self.rows: list[dict[str, Any]] = self.saved["rows"] if self.saved else []
        self.phases = 0
        self.epochs_before = 0
        self.stop = _StopButton(fabric)
        self.recorders = [make(self.folder) for make in recorders] if fabric.is_global_zero else []
        self._pin_threads()
        sow(seed)

    def _pin_threads(self) -> None:
        """The same number of threads as when the run began: sums of floats depend on it."""
        lock = run_folder.read_lock(self.folder / "lock.json")
        if "threads" in lock:
            torch.set_num_threads(lock["threads"])
        elif self.fabric.is_global_zero:
            run_folder.write_lock(self.folder / "lock.json", seed=self.seed, processes=self.fabric.world_size)

    def phase(self, name: str, *, epochs: int, data: Data, accumulate: int = 1, is_last: bool = False) -> "Phase":
        """The next phase. Phases are numbered in the order in which the program asks for them."""
        planned = epochs + (self.more_epochs if is_last else 0)
        phase = Phase(self, name, self.phases, planned, data, accumulate, self.epochs_before)
        self.phases += 1
        self.epochs_before += epochs
        return phase

    def save(self, state: Mapping[str, Any]) -> None:
        """Write the last checkpoint; only one process does."""
        if self.fabric.is_global_zero:
            whole = {"format": 1, "rows": self.rows, **state}
            run_folder.write_whole(self.folder / "last.ckpt", lambda beside: torch.save(whole, beside))

    def tell(self, text: str) -> None:
        if self.fabric.is_global_zero:
            progress.say(text)

    def finish(self, module: nn.Module, evaluate: Callable[[nn.Module], Mapping[str, float]]) -> dict[str, float]:
        """Take the best weights of the last phase, measure them once on data never looked at before, and tell."""
        best = self.folder / "best.ckpt"
        if best.exists():
            module.load_state_dict(_read_checkpoint(best)["module"])
        scores = dict(evaluate(module))
        if self.fabric.is_global_zero:
            run_folder.write_text(self.folder / "scores.json", json.dumps(scores, indent=2) + "\n")
            for recorder in self.recorders:
                recorder.write(scores, len(self.rows))
                recorder.close()
        if scores:
            self.tell(f"\n{progress.scores_table(scores)}")
        return scores


class Phase:
    """A stretch of training. `epochs` and `batches` are the program's two loops; `record` ends an epoch."""

    def __init__(
        self, run: Run, name: str, number: int, epochs: int, data: Data, accumulate: int, epochs_before: int
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
        self.epoch = 0  # epochs that are done
        self.batch = 0  # batches of the current epoch that are done
        self.losses = _Mean()
        self.best: float | None = None
        self.stale = 0  # epochs since the best
        self.is_over = False
        self.parts: dict[str, Any] = {}
        self._recorded = False
        self._started = time.monotonic()

    @property
    def steps(self) -> int:
        """How many optimizer steps the phase has."""
        return self.total * math.ceil(self.batches_per_epoch / self.accumulate)

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.batches_per_epoch / self.accumulate)

    @property
    def is_step(self) -> bool:
        """Whether the batch at hand completes a step: with `accumulate`, every so many, and the last of an epoch."""
        return (self.batch + 1) % self.accumulate == 0 or self.batch + 1 == self.batches_per_epoch

    # -- saving and going on

    def restore(self, **parts: Any) -> None:
        """Name what belongs to the phase's state (module, optimizer, …), and take up what an interrupted run left."""
        self.parts = {name: _bare(part) for name, part in parts.items()}
        saved = self.run.saved
        if saved is None or saved["phase"] < self.number:
            return
        if saved["phase"] > self.number:
            self.is_over = True  # a later phase holds the weights
            return
        for name, part in self.parts.items():
            part.load_state_dict(saved["parts"][name])
        self.epoch, self.batch = saved["epoch"], saved["batch"]
        self.losses = _Mean(*saved["losses"])
        self.best, self.stale = saved["best"], saved["stale"]
        self.is_over = saved["is_over"] and self.epoch >= self.total

    def save(self) -> None:
        self.run.save(
            {
                "phase": self.number,
                "epoch": self.epoch,
                "batch": self.batch,
                "losses": [self.losses.total, self.losses.count],
                "best": self.best,
                "stale": self.stale,
                "is_over": self.is_over,
                "parts": {name: part.state_dict() for name, part in self.parts.items()},
            }
        )

    # -- the program's loops

    def epochs(
        self, *, stop_early: str | None = None, patience: int | None = None, at_least: float = 0.0
    ) -> Iterator[int]:
        """The epochs that are left. With `stop_early`, ends when that score has not improved for `patience` epochs."""
        watch = stop_early or f"val.{self.run.watch}"
        while self.epoch < self.total and not self.is_over:
            self._recorded = False
            yield self.epoch
            assert self._recorded, "the program must call `phase.record` at the end of each epoch"
            self._keep_best(watch, at_least)
            self.epoch += 1
            self.batch, self.losses = 0, _Mean()
            stops = stop_early is not None and patience is not None and self.stale >= patience
            self.is_over = stops or self.epoch >= self.total
            if stops:
                self.run.tell(f"{self.name}: {watch} has not improved for {patience} epochs; going on with the best")
                self.parts["module"].load_state_dict(_read_checkpoint(self.run.folder / "best.ckpt")["module"])
            self.save()

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of the current epoch that are left, on the right device, with chance sown for each."""
        run, fabric = self.run, self.run.fabric
        epoch = self.epochs_before + self.epoch
        title = f"{self.name} {self.epoch + 1}/{self.total}"
        bar = progress.Progress(title, self.batches_per_epoch, self.batch, fabric.is_global_zero)
        self._started = time.monotonic()
        seen = 0
        batches = self.data.train.batches(epoch, first=self.batch, rank=fabric.global_rank, world=fabric.world_size)
        try:
            for images, labels in batches:
                sow(run.seed, epoch, self.batch, fabric.global_rank)
                yield fabric.to_device((images, labels))
                self.batch += 1
                seen += len(labels) * fabric.world_size
                bar.advance(self.losses.last, seen / (time.monotonic() - self._started), self._last_score())
                if run.stop.is_pressed():
                    self.save()
                    raise Stopped
                if run.checkpoint_steps and self.batch % run.checkpoint_steps == 0:
                    self.save()
                if self.batch >= self.batches_per_epoch:
                    break
        finally:
            bar.close()

    def saw(self, loss: Tensor) -> None:
        """Take note of a batch's loss; one that is not a number ends the run."""
        value = loss.detach().item()
        if not math.isfinite(value):
            raise Failure(
                f'the loss is {value} at batch {self.batch + 1} of epoch {self.epoch + 1} in phase "{self.name}"',
                f"try a smaller learning rate; the last good weights are in {self.run.folder / 'last.ckpt'}",
            )
        self.losses.add(value)

    def record(self, scores: Mapping[str, float]) -> None:
        """End the epoch: write its scores to metrics.csv and the recorders, and tell them."""
        seconds = time.monotonic() - self._started
        rate = next(iter(self.parts["optimizer"].param_groups))["lr"]
        told = {"train.loss": self.losses.mean(), **scores}
        row = {"phase": self.name, "epoch": self.epoch + 1, **told, "lr": rate, "seconds": seconds}
        self.run.rows.append(row)
        self._recorded = True
        if not self.run.fabric.is_global_zero:
            return
        run_folder.write_table(self.run.folder / "metrics.csv", self.run.rows)
        for recorder in self.run.recorders:
            recorder.write({**told, "lr": rate}, len(self.run.rows))
        progress.say(progress.epoch_line(f"{self.name} {self.epoch + 1}/{self.total}", told, seconds))

    # -- the best epoch

    def _keep_best(self, watch: str, at_least: float) -> None:
        score = self.run.rows[-1].get(watch, -self.run.rows[-1]["train.loss"])
        if watch.rpartition(".")[2] in LOWER_IS_BETTER:
            score = -score
        if self.best is not None and score <= self.best + at_least:
            self.stale += 1
            return
        self.best, self.stale = score, 0
        if self.run.fabric.is_global_zero:
            state = {"module": self.parts["module"].state_dict(), "phase": self.number, "epoch": self.epoch + 1}
            run_folder.write_whole(self.run.folder / "best.ckpt", lambda beside: torch.save(state, beside))
        self.run.fabric.barrier()

    def _last_score(self) -> str:
        name = f"val.{self.run.watch}"
        score = self.run.rows[-1].get(name) if self.run.rows else None
        return "" if score is None else f"{name}={score:.4f}"


class _Mean:
    """A running mean, kept as sum and count so that it can be saved exactly."""

    def __init__(self, total: float = 0.0, count: int = 0) -> None:
        self.total = total
        self.count = count
        self.last: float | None = None

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1
        self.last = value

    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan


class _StopButton:
    """Ctrl-C, or a cluster's SIGTERM: the first asks the run to save and end, the second ends it at once."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._is_pressed = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._press)

    def _press(self, number: int, _frame: FrameType | None) -> None:
        if self._is_pressed:
            os._exit(128 + number)
        self._is_pressed = True
        if self._fabric.is_global_zero:
            progress.say("stopping after this batch; once more to leave at once")

    def is_pressed(self) -> bool:
        """Whether any process was asked to stop: they must agree, or one would wait for the others forever."""
        if self._fabric.world_size == 1:
            return self._is_pressed
        agreed = self._fabric.all_reduce(torch.tensor(float(self._is_pressed)), reduce_op="sum")
        return isinstance(agreed, Tensor) and bool(agreed.item() > 0)


def _open_folder(args: argparse.Namespace) -> Path:
    if not args.resume:
        return run_folder.new_folder(args.output)
    found = Path(args.resume)
    if not (found / "last.ckpt").is_file():
        raise Failure(f"{found} holds nothing to resume: there is no last.ckpt in it")
    return found


def _read_checkpoint(file: Path) -> dict[str, Any]:
    try:
        saved = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as problem:
        raise Failure(f"{file} can't be read: {problem}") from None
    assert isinstance(saved, dict)
    return saved


def _bare(part: Any) -> Any:
    """What Fabric wrapped, as it was. A schedule, which has an optimizer too, is no wrapper."""
    is_wrapper = isinstance(getattr(part, "optimizer", None), torch.optim.Optimizer)
    return part.optimizer if is_wrapper and not isinstance(part, torch.optim.lr_scheduler.LRScheduler) else part
