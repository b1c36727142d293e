"""A phase of training: which epochs and batches are left, what is logged, which epoch is the best, when it ends.

The loop itself is in the program: `epochs` and `batches` are its two loops, `log` takes the loss of a batch,
`end_epoch` the scores of an epoch.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leaven.runtime.data.batches import Data, IndexedSplit, Split
from leaven.runtime.failures import Failure, Stopped
from leaven.runtime.model.freezing import frozen_layers
from leaven.runtime.run.batch_losses import BatchLosses
from leaven.runtime.run.checkpoint import Checkpoint, keep_weights
from leaven.runtime.run.layer_watch import LayerWatch, not_found, watched_layers
from leaven.runtime.run.loop import Loop
from leaven.runtime.run.measuring import choose_precision, compile_if_faster
from leaven.runtime.run.optimizer_state import optimizer_state_of
from leaven.runtime.run.outlook import Outlook
from leaven.runtime.run.placed_model import PlacedModel
from leaven.runtime.run.placement import Placement, Stateful, place
from leaven.runtime.seeding import seed_all
from leaven.runtime.stored.storing import Answering, frozen_once, teacher_once
from leaven.runtime.trials import fused
from leaven.runtime.trials.group import EndedEpoch
from leaven.runtime.trials.shared import own_weights
from leaven.terminal.commands import to_resume

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run


@dataclass(eq=False, repr=False)
class Phase:
    """One phase of a run; `loop` counts what is done, and `outlook` shows it."""

    run: "Run"
    name: str
    number: int
    model: nn.Module
    data: Data
    loop: Loop
    outlook: Outlook
    epochs_before: int
    compile: bool = False
    is_last: bool = False

    def __post_init__(self) -> None:
        run = self.run
        self.losses = BatchLosses(self.name, self.number, self.loop, run.record, run.fabric)
        self.checkpoint = Checkpoint(run, self.number, self.loop, self.losses)
        self.can_be_best = True  # a technique may rule out the current epoch
        self.in_training: nn.Module = self.model  # with what the program puts around it
        self.inputs: Any = None  # of the current batch
        self.measured: Stateful = self.model  # the model whose weights the scores of the epoch are of
        self._placement: Placement | None = None  # while the phase trains
        self._share = 1.0  # of the current batch, that this process has
        self._watch: LayerWatch | None = None
        self._told: dict[str, Any] = {}  # what is recorded of the current step, besides its loss
        self._began = time.monotonic()  # of the epoch's training
        trains = self.loop.length.amount > 0
        self._is_planned = trains and run.is_planned and not run.order.is_finished(self.number)

    # -- where its loop is

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return self.loop.epoch

    @property
    def batch(self) -> int:
        """How many batches of the current epoch are done."""
        return self.loop.batch

    @property
    def total_epochs(self) -> int:
        return self.loop.epochs

    @property
    def steps_per_epoch(self) -> int:
        """How many optimizer steps an epoch has."""
        return self.loop.whole.steps

    @property
    def total_steps(self) -> int:
        """How many optimizer steps the whole phase has."""
        return self.loop.steps

    @property
    def is_step(self) -> bool:
        """Whether the current batch completes an optimizer step."""
        return self.loop.is_step

    @property
    def batches_in_step(self) -> int:
        """How many batches the current optimizer step averages."""
        return self.loop.batches_in_step

    @property
    def ends_epoch(self) -> bool:
        """Whether the current batch is the last of its epoch."""
        return self.loop.ends_epoch

    # -- what is computed before it, and how fast

    def frozen_once(
        self, model: nn.Module, data: Data, *, only: str | None = None, exact: bool = True
    ) -> tuple[nn.Module, Data]:
        """The rest of a model, after its frozen layers, and the data with their outputs, which are computed once per
        image and stored, `only` for one split.

        Training gives the same weights as with the model and the data. Where that can't be ensured, these are returned,
        and a line says why. Outputs that need not be `exact` are computed in the fastest way. Later runs find the
        outputs, unless code of no known library computes them.
        """
        if not self._is_planned:
            return model, data
        saved = self.run.saved
        if saved is not None and saved["phase"] == self.number:
            # those that the run was interrupted with: weights from a file may be others now
            self.model.load_state_dict(saved["state"]["model"])
        return frozen_once(self, model, data, only, exact=exact)

    def teacher_once(self, teacher: Answering, data: Data) -> Data:
        """The data with the outputs of a teacher, which runs once per image of training."""
        return teacher_once(self, teacher, data) if self._is_planned else data

    def choose_precision(self, *names: str) -> None:
        """Train at the fastest of these precisions, as measured: at the first, unless another is clearly faster."""
        choose_precision(self, names, may_measure=self._is_planned)

    def compile_if_faster(self, model: nn.Module) -> None:
        """Compile the model if that is measured to save more time in this phase than it takes."""
        if self._is_planned:
            compile_if_faster(self, model)

    # -- begin and finish

    def setup(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Any, /, **techniques: Any
    ) -> tuple[PlacedModel, Any]:
        """Set up model and optimizer for the devices and the precision, and load the state of an interrupted run.

        Returns the model and the optimizer to use from here on. `techniques` are those with a state of their own,
        all of the user's, and a `criterion` of the user's.
        """
        fabric = self.run.fabric
        placement = self._placement = place(fabric, model, optimizer, compile=self.compile)
        placed = self.in_training = PlacedModel(model, placement, fabric, self.data.target)
        self.restore({**placement.saved, "schedule": schedule, **techniques}, optimizer)
        return placed, placement.used

    def setup_without_optimizer(self) -> None:
        """Load the state of an interrupted run, in a phase that finds its weights in another way than by steps."""
        self.restore({"model": self.model})

    def restore(self, parts: Mapping[str, Any], optimizer: torch.optim.Optimizer | None = None) -> None:
        """Load the state of an interrupted run into the parts of the phase; without an optimizer, it makes no steps."""
        run = self.run
        loose = [part for name, part in parts.items() if name != "criterion" and not hasattr(part, "state_dict")]
        owners = {"model": self.model, "loss": parts.get("criterion"), "optimizer": optimizer}
        run.plain_state.begin_phase(self.data, loose, **owners)
        self.checkpoint.restore(parts)
        splits = [split for split in (self.data.train, self.data.val) if isinstance(split, IndexedSplit)]
        run.folder.note(workers={split.name: split.workers for split in splits})
        if self.loop.is_left and not self.loop.epoch and not self.loop.batch:
            run.record.add("phase", self.number, name=self.name, steps_per_epoch=self.steps_per_epoch)

    def watch(self, *layers: str, every: int) -> None:
        """Measure layers at every so many steps: their gradients, updates and activations, in `training.jsonl`.

        Trials that train together, and models that are sharded, run no layers of their own, and are not measured.
        """
        run, placement = self.run, self._placement
        assert placement is not None, "the program calls `phase.setup` first"
        if run.trial is not None or not placement.runs_model or not run.folder.writes:
            return
        found = watched_layers(self.model, layers)
        if missing := not_found(layers, found):
            run.print(f"not watched, as the model has no such layer: {', '.join(missing)}")
        self._watch = LayerWatch(found, every, runs_layers=not self.compile)
        self.checkpoint.watch = self._watch
        if run.saved is not None and run.saved["phase"] == self.number:
            self._watch.load_state_dict(run.saved.get("watch", {}))

    def finish(self, *, keep_optimizer: bool = False) -> None:
        """Leave the weights to the next phase: after early stopping the best, else the last ones.

        With `keep_optimizer`, the next phase can continue with the optimizer's state. A phase that an interrupted run
        had finished loads what it left then: the best weights on disk may be those of the next phase already.
        """
        run, placement, self._placement = self.run, self._placement, None
        if placement is not None:
            placement.end(keep_optimizer=keep_optimizer)
        own_weights(self.model)
        if self.is_last:
            return
        seed_all(run.seed, -1 - self.number)  # for what the next phase draws before its first batch
        if run.order.has_left(self.number):
            run.order.load_left(self.number, self.model)
            return
        if not run.ending.trains:  # the run can still be resumed in this phase
            return
        best = run.folder.best_of(self.number) if self.loop.is_stopped_early else None
        if best is not None and best.weights is not None:
            self.model.load_state_dict(best.weights)
        if self.loop.length.amount > 0:  # a phase without training keeps the state of the phase before
            run.order.optimizer_state = {}
            if keep_optimizer and placement is not None:
                run.order.optimizer_state = optimizer_state_of(placement.optimizer, self.model)
        run.order.leave(self.number, self.model)

    # -- the program's loops

    def epochs(self, *, stop_early: str | None = None, patience: int = 0, at_least: float = 0.0) -> Iterator[int]:
        """The epochs that are left. With `stop_early`, training ends when that score has not improved for `patience`
        epochs, and the best weights are used."""
        run, loop = self.run, self.loop
        while loop.is_left and run.ending.trains:
            self.can_be_best = True
            self.outlook.begin_epoch()
            yield loop.epoch
            if loop.row is None:
                raise Failure("the program did not call `phase.end_epoch` at the end of an epoch")
            keep_weights(self, is_needed=stop_early is not None)
            if self.can_be_best:
                loop.count_stale(run.scores.signed(*run.scores.of_epoch(loop.row, stop_early)), at_least)
            loop.end_epoch(patience if stop_early is not None else None)
            self.losses.clear()
            if loop.is_stopped_early:
                since = f"{loop.stale} epoch{'s' * (loop.stale > 1)}"
                run.print(f"{self.name}: stopped early, {stop_early} has not improved for {since}")
            if self.checkpoint.is_due_after_epoch():
                self.checkpoint.save()
            self.outlook.end_epoch()

    def batches(self, split: Split) -> Iterator[tuple[Any, Any]]:
        """The batches of the epoch that are left, on the device, with the global generators seeded for each."""
        run, fabric, loop = self.run, self.run.fabric, self.loop
        placement = self._placement
        assert placement is not None, "the program did not call `phase.setup`"
        epoch = self.epochs_before + loop.epoch
        bar = self.outlook.training(lambda: self.losses.last, is_shown=run.shows_training)
        frozen = frozen_layers(self.model)
        self._began = time.monotonic()
        batches = split.batches(epoch, first=loop.batch, rank=fabric.global_rank, world=fabric.world_size)
        try:
            while not loop.is_epoch_trained:
                run.before_batch(self)
                began = time.monotonic()
                images, targets = _next(batches, run)
                for layer in frozen:
                    if layer.training:  # user code may have called `train` on it
                        layer.training = False
                _seed(placement.optimizer, run.seed, epoch, loop.batch, fabric.global_rank)
                self.inputs = images
                self._share = split.part(loop.batch, fabric.global_rank, fabric.world_size)
                is_step = loop.is_step
                self._told = {"lr": placement.optimizer.param_groups[0]["lr"]}
                # between steps, gradients add up in each process and are not exchanged
                with placement.without_exchange() if not is_step else self._measuring(placement.optimizer):
                    yield fabric.to_device((images, targets))
                if loop.length.is_open:  # all processes go by the clock of the first
                    loop.seconds = fabric.broadcast(loop.seconds + time.monotonic() - began)
                loop.batch += 1
                self.outlook.seen += round(len(targets) / self._share) if self._share else 0
                bar.advance()
                if is_step and run.stop.is_pressed():
                    self.checkpoint.stop()
                if is_step and not loop.is_epoch_trained and self.checkpoint.is_due():
                    self.checkpoint.save()
        finally:
            bar.close()

    def backward(self, loss: Tensor, **options: Any) -> None:
        """Compute the gradients; at half precision, of the scaled loss. Trials that train together do so together.

        The mean over the gradients of all processes is that of the batch, even if their shares of it are not equal.
        """
        trial, weight = self.run.trial, self._share * self.run.fabric.world_size
        if weight != 1:
            loss = loss * weight
        if trial is None or options:
            self.run.fabric.backward(loss, **options)
        else:
            fused.backward(trial, lambda: self.run.fabric.backward(loss))

    def clip_gradients(self, optimizer: Any, *, max_norm: float) -> None:
        """Scale the gradients down to a norm."""
        self._told["gradient"] = self.run.fabric.clip_gradients(self.model, optimizer, max_norm=max_norm)

    def log(self, loss: Tensor, parts: Mapping[str, Tensor] | None = None) -> None:
        """Log the loss of a batch, and those that it is the sum of; NaN ends the run."""
        if self._watch is not None and (row := self._watch.take_row()) is not None:
            self.run.record.add("layers", self.number, epoch=self.epoch + 1, step=self.loop.step, **row)
        self.losses.add(loss, parts or {}, self._share, **self._told)

    def _measuring(self, optimizer: torch.optim.Optimizer) -> AbstractContextManager[None]:
        """While a step is measured, the hooks for that are there."""
        is_due = self._watch is not None and self._watch.is_due(self.loop)
        return self._watch.measuring(optimizer) if self._watch is not None and is_due else nullcontext()

    def end_epoch(self, scores: Mapping[str, float], weights: nn.Module | None = None) -> None:
        """End the epoch: log its scores, and keep the weights if they are the best so far."""
        run, placement = self.run, self._placement
        self.losses.read()
        seconds = time.monotonic() - self._began
        loss, parts = self.losses.means()
        shown = {"train.loss": loss, **scores}
        rate = {} if placement is None else {"lr": placement.optimizer.param_groups[0]["lr"]}
        logged = {**shown, **{f"train.{name}": value for name, value in parts.items()}, **rate}
        self.measured = weights if weights is not None else self.checkpoint.parts["model"]
        self.loop.row = {"phase": self.name, "epoch": self.epoch + 1, **logged, "seconds": round(seconds, 3)}
        run.scores.log_epoch(self.loop.row, logged)
        step = self.loop.step - 1 if self.loop.batch else 1
        run.record.add("epoch", self.number, epoch=self.epoch + 1, step=step, scores=shown)
        if run.scores.probes:
            run.record.add("probes", self.number, epoch=self.epoch + 1, step=step, samples=run.scores.probes)
        if run.trial is None:
            run.print(self.outlook.epoch_line(shown, seconds))
        else:
            score, value = run.scores.of_epoch(shown)
            run.trial.group.tell_epoch(
                run.trial, self.outlook.title, EndedEpoch(score, value, run.scores.signed(score, value))
            )

    def score_of(self, scores: Mapping[str, float]) -> float | None:
        """The score that decides which epoch is the best, such that higher is better; None where it is not there."""
        monitor = self.run.scores.monitor
        return self.run.scores.signed(monitor, scores[monitor]) if monitor in scores else None


def _next(batches: Iterator[tuple[Any, Any]], run: "Run") -> tuple[Any, Any]:
    try:
        return next(batches)
    except StopIteration:
        raise Failure("the data ended before the epoch did", "it must yield the same samples every time") from None
    except Failure:
        if run.stop.is_pressed_here:  # the signal that stops the run stopped the workers too
            raise Stopped(f"stopped; to resume from the last checkpoint: {to_resume(run.folder.named)}") from None
        raise


def _seed(optimizer: torch.optim.Optimizer, *numbers: int) -> None:
    """Seed for one batch; Python and NumPy too, as user code may draw from them."""
    seed_all(*numbers)
    own = getattr(optimizer, "generator", None)  # as AdaHessian has
    if isinstance(own, torch.Generator):
        own.manual_seed(torch.initial_seed())
