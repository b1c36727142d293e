"""A phase of training: which epochs and batches are left, what is logged, which epoch is the best, when it ends.

The loop itself is in the program: `epochs` and `batches` are its two loops, `log` takes the loss of a batch,
`end_epoch` the scores of an epoch.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from leaven.formats.run_folder import LAST, epoch_file, leaving_file
from leaven.formats.sweep_folder import DIVERGED
from leaven.runtime.data.batches import Data, Split
from leaven.runtime.data.loading import transforms_in
from leaven.runtime.data.model_inputs import first_tensor, some_of
from leaven.runtime.failures import Diverged, Failure, Stopped
from leaven.runtime.model.freezing import frozen_layers
from leaven.runtime.model.outside import outside_state
from leaven.runtime.model.state import changed_names, unsaved_state
from leaven.runtime.run import progress
from leaven.runtime.run.batch_losses import BatchLosses
from leaven.runtime.run.loop import Loop
from leaven.runtime.run.measuring import choose_precision, compile_if_faster
from leaven.runtime.run.optimizer_state import optimizer_state_of
from leaven.runtime.run.outlook import Outlook
from leaven.runtime.run.placed_model import PlacedModel
from leaven.runtime.run.placement import Placement, Stateful, place
from leaven.runtime.seeding import seed_all
from leaven.runtime.stored.batch import StoredBatch
from leaven.runtime.stored.storing import Answering, frozen_once, teacher_once
from leaven.runtime.trials import fused
from leaven.runtime.trials.group import WRITE_EVERY, EndedEpoch
from leaven.runtime.trials.shared import own_weights, shared_weights
from leaven.terminal.commands import to_resume

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run

QUICK_BATCHES = 2
_OF_THE_WHOLE_CYCLE = ("total_steps", "_schedule_phases")  # of OneCycleLR: a longer run has a longer cycle
_OUTSIDE = ""  # the owner of variables of the user's code
_OF_ALL_PHASES = ("model", "transforms", _OUTSIDE)  # the owners that are the same in each
READ_EVERY = 20  # batches, where reading a loss waits for another device


@dataclass(eq=False, repr=False)
class Phase:
    """One phase of a run; `loop` counts what is done."""

    run: "Run"
    name: str
    number: int
    model: nn.Module
    data: Data
    loop: Loop
    epochs_before: int
    compile: bool = False
    is_last: bool = False

    def __post_init__(self) -> None:
        run = self.run
        self.losses = BatchLosses()
        self.can_be_best = True  # a technique may rule out the current epoch
        self.state: dict[str, Any] = {}  # what a checkpoint holds
        self._parts: dict[str, Any] = {}  # the same, and what has no state to save
        self._in_training: nn.Module = self.model  # with what the program puts around it
        self.placement: Placement | None = None  # while the phase trains
        self._row: Mapping[str, Any] | None = None
        self._inputs: Any = None  # of the current batch
        self._part = 1.0  # of the current batch, that this process has
        self._began = time.monotonic()
        self.outlook = Outlook(
            phase=self.name,
            loop=self.loop,
            epochs_before=self.epochs_before,
            epochs_after=0 if self.is_last else run.epochs_after(self.epochs_before + self.loop.most_epochs),
            validation_batches=run.evaluation_batches(self.data.val),
            is_quick=run.is_quick,
            is_shown=run.trial is None,
        )
        self._saved_at = time.monotonic()

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
    def trains(self) -> bool:
        """Whether it is longer than nothing."""
        return self.loop.length.amount > 0

    @property
    def total_epochs(self) -> int:
        return self.loop.epochs

    @property
    def batches_per_epoch(self) -> int:
        return self.loop.whole.batches

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

    @property
    def _is_planned(self) -> bool:
        """Whether the phase trains, and as the planner decided."""
        return self.run.is_planned and not self.run.is_finished(self.number) and self.trains

    # -- begin and finish

    def setup(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Any, /, **techniques: Any
    ) -> tuple[PlacedModel, Any]:
        """Set up model and optimizer for the devices and the precision, and load the state of an interrupted run.

        Returns the model and the optimizer to use from here on. `techniques` are those with a state of their own, and
        a `criterion` of the user's.
        """
        fabric = self.run.fabric
        placement = self.placement = place(fabric, model, optimizer, compile=self.compile)
        placed = self._in_training = PlacedModel(model, placement, fabric, self.data.target)
        self._begin_with({**placement.saved, "schedule": schedule, **techniques})
        return placed, placement.used

    def begin_without_optimizer(self) -> None:
        """Load the state of an interrupted run, in a phase that finds its weights in another way than by steps."""
        self._begin_with({"model": self.model})

    def _begin_with(self, state: dict[str, Any]) -> None:
        self._parts = state
        self.state = {name: part for name, part in state.items() if hasattr(part, "state_dict")}
        for owner, found in self._plain_state().items():
            before = self.run.unsaved_state.get(owner, {}) if owner in _OF_ALL_PHASES else {}
            self.run.unsaved_state[owner] = {**found, **before}
        self._restore()
        self.run.note_workers(self.data)

    def _restore(self) -> None:
        saved = self.run.saved
        if self.run.is_finished(self.number):
            self.loop.is_over = True
            return
        if saved is None or saved["phase"] < self.number:
            return
        schedule = vars(self.state["schedule"]) if "schedule" in self.state else {}
        longer = {k: v for k, v in schedule.items() if k in _OF_THE_WHOLE_CYCLE}
        for name, part in self.state.items():
            state = saved["state"][name]
            is_extended = name == "schedule" and self.loop.is_longer_than(saved)
            part.load_state_dict({**state, **longer} if is_extended else state)
        self._tell_unsaved(saved.get("unsaved", {}))
        self.run.fabric.strategy.precision.load_state_dict(saved["precision"])
        self.loop.load_state_dict(saved)
        total, count, parts = saved["losses"]  # of all processes: the first goes on with them
        is_first = self.run.fabric.is_global_zero
        self.losses = BatchLosses(total, count, parts) if is_first else BatchLosses(parts=dict.fromkeys(parts, 0.0))
        if self.loop.is_longer_than(saved):
            self.save()  # from now on the longer phase is the plan

    def _tell_unsaved(self, unsaved: Mapping[str, Sequence[str]]) -> None:
        """Say which state of the user's modules the checkpoint does not have."""
        for owner, names in unsaved.items():
            told = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            of = f" of the {owner}" if owner != _OUTSIDE else ""
            help = "use random numbers instead" if owner == "transforms" else "use a buffer, or `get_extra_state`"
            self.run.print(
                f"{told}{of} changed in training, but plain Python state is not saved in checkpoints, so the"
                f" result may differ from that of an uninterrupted run; {help}"
            )

    def save(self) -> None:
        """Write a checkpoint from which the phase can be resumed."""
        self._saved_at = time.monotonic()
        self.run.save(
            {
                "phase": self.number,
                **self.loop.state_dict(),
                "losses": self._losses_of_all(),
                "unsaved": self._unsaved(),
                "state": {name: part.state_dict() for name, part in self.state.items()},
            }
        )

    def _unsaved(self) -> dict[str, list[str]]:
        """The plain state of the user's code that is another one than when training began, by owner."""
        teachers = [getattr(part, "teacher", None) for part in self.state.values()]
        before = self.run.unsaved_state
        found = {owner: changed_names(before[owner], state) for owner, state in self._plain_state().items()}
        found["teacher"] = [name for each in teachers if isinstance(each, Answering) for name in each.unsaved_state()]
        return {owner: names for owner, names in found.items() if names}

    def _plain_state(self) -> dict[str, dict[str, Any]]:
        """The plain state of the user's code that no checkpoint has, by owner."""
        optimizer = None if self.placement is None else self.placement.optimizer
        owners = {"model": self.model, "loss": self._parts.get("criterion"), "optimizer": optimizer}
        found = {owner: unsaved_state(each) for owner, each in owners.items()}
        found["transforms"] = {
            f"{type(each).__name__}.{name}": value
            for transform in (self.data.eval_transform, self.data.train_transform)
            for each in transforms_in(transform)
            for name, value in unsaved_state(each).items()
        }
        return {**found, _OUTSIDE: outside_state(self.model)}

    def finish(self, *, keep_optimizer: bool = False) -> None:
        """Leave the weights to the next phase: after early stopping the best, else the last ones.

        With `keep_optimizer`, the next phase can continue with the optimizer's state. A phase that an interrupted run
        had finished loads what it left then: the best weights on disk may be those of the next phase already.
        """
        placement, self.placement = self.placement, None
        if placement is not None:
            placement.end(keep_optimizer=keep_optimizer)
        own_weights(self.model)
        if self.is_last:
            return
        name = leaving_file(self.number)
        seed_all(self.run.seed, -1 - self.number)  # for what the next phase draws before its first batch
        if self.run.is_finished(self.number) or self.run.folder.has(name):
            self.run.load_finished(self.number, self.model)
            return
        if not self.run.ending.trains:  # the run can still be resumed in this phase
            return
        best = self.run.folder.best_of(self.number) if self.loop.is_stopped_early else None
        if best is not None and best.weights is not None:
            self.model.load_state_dict(best.weights)
        if self.trains:  # a phase without training keeps the state of the phase before
            self.run.optimizer_state = {}
            if keep_optimizer and placement is not None:
                self.run.optimizer_state = optimizer_state_of(placement.optimizer, self.model)
        self.run.folder.write(name, {"model": self.model.state_dict(), "optimizer_state": self.run.optimizer_state})

    # -- the program's loops

    def epochs(self, *, stop_early: str | None = None, patience: int = 0, at_least: float = 0.0) -> Iterator[int]:
        """The epochs that are left. With `stop_early`, training ends when that score has not improved for `patience`
        epochs, and the best weights are used."""
        loop, monitor = self.loop, stop_early or self.run.monitor
        while loop.is_left and self.run.ending.trains:
            self._row, self.can_be_best = None, True
            self.outlook.begin_epoch()
            yield loop.epoch
            if self._row is None:
                raise Failure("the program did not call `phase.end_epoch` at the end of an epoch")
            if self.can_be_best:
                self._keep_best(is_needed=stop_early is not None)
                loop.count_stale(self._score(monitor), at_least)
            loop.end_epoch(patience if stop_early is not None else None)
            self.losses = BatchLosses()
            if loop.is_stopped_early:
                since = f"{loop.stale} epoch{'s' * (loop.stale > 1)}"
                self.run.print(f"{self.name}: stopped early, {stop_early} has not improved for {since}")
            # trials that train together save less often
            may_save = self.run.trial is None or time.monotonic() - self._saved_at >= WRITE_EVERY
            if loop.is_over or (loop.epoch % self.run.checkpoint.epochs == 0 and may_save):
                self.save()
            if self.run.checkpoint.keep == "all":
                self.run.folder.write(epoch_file(self.number, loop.epoch), self._weights(self.state["model"]))
            self.outlook.end_epoch()

    def batches(self, split: Split) -> Iterator[tuple[Any, Any]]:
        """The batches of the epoch that are left, on the device, with the global generators seeded for each."""
        run, fabric, loop = self.run, self.run.fabric, self.loop
        assert self.placement is not None, "the program did not call `phase.setup`"
        epoch = self.epochs_before + loop.epoch
        bar = self.outlook.training(lambda: self.losses.last, is_shown=run.shows_training)
        frozen = frozen_layers(self.model)
        self._began = time.monotonic()
        batches = split.batches(epoch, first=loop.batch, rank=fabric.global_rank, world=fabric.world_size)
        try:
            while not loop.is_epoch_trained:
                run.before_batch(self)
                began = time.monotonic()
                images, targets = self._next(batches)
                for layer in frozen:
                    if layer.training:  # user code may have called `train` on it
                        layer.training = False
                self._seed(epoch)
                self._inputs = images
                self._part = split.part(loop.batch, fabric.global_rank, fabric.world_size)
                is_step = loop.is_step
                # between steps, gradients add up in each process and are not exchanged
                with self.placement.without_exchange() if not is_step else nullcontext():
                    yield fabric.to_device((images, targets))
                if loop.length.is_open:  # all processes go by the clock of the first
                    loop.seconds = fabric.broadcast(loop.seconds + time.monotonic() - began)
                loop.batch += 1
                self.outlook.seen += round(len(targets) / self._part) if self._part else 0
                bar.advance()
                if is_step and run.stop.is_pressed():
                    self.stop()
                if is_step and not loop.is_epoch_trained and self._is_time_to_save():
                    self._read_losses()
                    self.save()
        finally:
            bar.close()

    @property
    def awaits_scores(self) -> bool:
        """Whether an epoch has no batches left and no scores yet: saved like this, it is measured again."""
        return self.loop.is_epoch_trained and self._row is None and not self.loop.is_over

    def stop(self) -> NoReturn:
        """Save, and end the run; resumed, it continues here."""
        run = self.run
        self._read_losses()
        self.save()
        raise Stopped(f"stopped and saved{run.next_commands}")

    def _seed(self, epoch: int) -> None:
        """Seed for one batch; Python and NumPy too, as user code may draw from them."""
        run = self.run
        seed_all(run.seed, epoch, self.batch, run.fabric.global_rank)
        own = getattr(self.placement and self.placement.optimizer, "generator", None)  # as AdaHessian has
        if isinstance(own, torch.Generator):
            own.manual_seed(torch.initial_seed())

    def _next(self, batches: Iterator[tuple[Any, Any]]) -> tuple[Any, Any]:
        try:
            return next(batches)
        except StopIteration:
            raise Failure("the data ended before the epoch did", "it must yield the same samples every time") from None
        except Failure:
            if self.run.stop.is_pressed_here:  # the signal that stops the run stopped the workers too
                raise Stopped(
                    f"stopped; to resume from the last checkpoint: {to_resume(self.run.folder.named)}"
                ) from None
            raise

    def _is_time_to_save(self) -> bool:
        policy = self.run.checkpoint
        if policy.steps and (self.batch // self.loop.whole.accumulate) % policy.steps == 0:
            return True
        if not policy.minutes:
            return False
        minutes: float = self.run.fabric.broadcast((time.monotonic() - self._saved_at) / 60)  # all agree
        return minutes >= policy.minutes

    def backward(self, loss: Tensor, **options: Any) -> None:
        """Compute the gradients; at half precision, of the scaled loss. Trials that train together do so together.

        The mean over the gradients of all processes is that of the batch, even if their shares of it are not equal.
        """
        trial, weight = self.run.trial, self._part * self.run.fabric.world_size
        if weight != 1:
            loss = loss * weight
        if trial is None or options:
            self.run.fabric.backward(loss, **options)
        else:
            fused.backward(trial, lambda: self.run.fabric.backward(loss))

    def clip_gradients(self, optimizer: Any, *, max_norm: float) -> None:
        """Scale the gradients down to a norm."""
        self.run.fabric.clip_gradients(self.model, optimizer, max_norm=max_norm)

    def log(self, loss: Tensor, parts: Mapping[str, Tensor] | None = None) -> None:
        """Log the loss of a batch, and those that it is the sum of; NaN ends the run."""
        self.losses.add(loss, parts or {}, self._part)
        if loss.device.type == "cpu" or len(self.losses.waiting) >= READ_EVERY:
            self._read_losses()

    def _read_losses(self) -> None:
        first = self.batch + 1 - len(self.losses.waiting)
        for number, value in enumerate(self.losses.read(), first + 1):
            if not math.isfinite(value):
                folder = self.run.folder
                where = f"; the last good weights are in {folder.named / LAST}" if folder.has(LAST) else ""
                headline = f'the loss is {value} at batch {number} of epoch {self.epoch + 1} in phase "{self.name}"'
                folder.note(**{DIVERGED: headline})  # of a sweep, the other trials go on
                raise Diverged(
                    headline,
                    f"try a smaller learning rate{where}",
                    about="optimizer",
                )

    def end_epoch(self, scores: Mapping[str, float], weights: nn.Module | None = None) -> None:
        """End the epoch: log its scores, and keep the weights if they are the best so far."""
        self._read_losses()
        seconds = time.monotonic() - self._began
        loss, parts = self._mean_losses()
        logged = {"train.loss": loss, **scores}
        rate = {} if self.placement is None else {"lr": self.placement.optimizer.param_groups[0]["lr"]}
        named = {f"train.{name}": value for name, value in parts.items()}
        row = {"phase": self.name, "epoch": self.epoch + 1, **logged, **named, **rate, "seconds": round(seconds, 3)}
        self._row = row
        self._best_of = weights if weights is not None else self.state["model"]
        self.run.log_epoch(row, {**logged, **named, **rate})
        self._tell_epoch(logged, seconds)

    def _tell_epoch(self, logged: Mapping[str, float], seconds: float) -> None:
        trial, score = self.run.trial, self.run.monitor if self.run.monitor in logged else "train.loss"
        if trial is not None:
            value = logged[score]
            trial.group.tell_epoch(trial, self.outlook.title, EndedEpoch(score, value, self.run.signed(score, value)))
            return
        self.run.print(progress.epoch_line(self.outlook.title, logged, seconds, self.outlook.seconds_left()))

    def _mean_losses(self) -> tuple[float, dict[str, float]]:
        """The means over the batches: of the loss, and of those that it is the sum of."""
        total, count, parts = self._losses_of_all()
        if not count:
            return math.nan, {}
        return total / count, {name: value / count for name, value in parts.items()}

    def _losses_of_all(self) -> tuple[float, float, dict[str, float]]:
        """The sum of the losses of all batches, their number, and the sums of their parts."""
        fabric, losses = self.run.fabric, self.losses
        if fabric.world_size == 1:
            return losses.total, losses.count, losses.parts
        sums = torch.tensor([losses.total, losses.count, *losses.parts.values()], dtype=torch.float64)
        total, count, *parts = fabric.all_reduce(fabric.to_device(sums), reduce_op="sum").tolist()  # type: ignore[union-attr]
        return total, count, dict(zip(losses.parts, parts, strict=True))

    # -- the best epoch

    def _score(self, monitor: str) -> float:
        """A score of the epoch, such that higher is better; the training loss where it was not measured."""
        assert self._row is not None
        monitor = monitor if monitor in self._row else "train.loss"
        return self.run.signed(monitor, self._row[monitor])

    def score_of(self, scores: Mapping[str, float]) -> float | None:
        """The score that decides which epoch is the best, such that higher is better; None where it is not there."""
        monitor = self.run.monitor
        return self.run.signed(monitor, scores[monitor]) if monitor in scores else None

    def _keep_best(self, *, is_needed: bool) -> None:
        assert self._row is not None
        score, loss = self._score(self.run.monitor), self._row.get("val.loss", self._row["train.loss"])
        if not self.loop.is_best(score, loss):
            return
        self.run.best_epochs[self.name] = self.epoch + 1
        if self.run.checkpoint.keep != "last" or is_needed:
            caveats = list(self.run.caveats_about("val"))
            self.run.folder.write_best({**self._weights(self._best_of), "caveats": caveats}, shared_weights(self.model))
        self.run.fabric.barrier()

    def _weights(self, model: Stateful) -> dict[str, Any]:
        return {"model": model.state_dict(), "phase": self.number, "epoch": self.epoch + 1}

    # -- memory

    def batch_that_fits(self) -> int | None:
        """After a batch was too large: the largest half, quarter, … of it that can be trained on here."""
        # it may have been too large for what is computed before the first epoch
        inputs = self._inputs if self._inputs is not None else next(self.data.train.batches(0))[0]
        if not isinstance(inputs, Tensor | StoredBatch | dict):  # images of several sizes
            return None
        size = len(first_tensor(inputs)) // 2
        while size >= 1:
            try:
                self._in_training(self.run.fabric.to_device(some_of(inputs, size))).sum().backward()
                return size * self.run.fabric.world_size
            except (RuntimeError, MemoryError):
                self.model.zero_grad()
                size //= 2
        return None
