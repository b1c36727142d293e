"""The checkpoint from which a phase is resumed: what it holds, when it is written, and how a phase goes on from it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from leaven.formats.run_folder import epoch_file
from leaven.runtime.failures import Stopped
from leaven.runtime.run.batch_losses import BatchLosses
from leaven.runtime.run.layer_watch import LayerWatch
from leaven.runtime.run.loop import Loop
from leaven.runtime.run.placement import Stateful
from leaven.runtime.run.plain_state import lost_state_lines
from leaven.runtime.run.samples import as_tensors
from leaven.runtime.trials.group import WRITE_EVERY
from leaven.runtime.trials.shared import shared_weights

if TYPE_CHECKING:
    from leaven.runtime.run.phase import Phase
    from leaven.runtime.run.run import Run

_OF_THE_WHOLE_CYCLE = ("total_steps", "_schedule_phases")  # of OneCycleLR: a longer run has a longer cycle


@dataclass(frozen=True)
class CheckpointPolicy:
    """How often a checkpoint is written besides at the end, and which are kept. By default, after every epoch."""

    epochs: int = 1
    steps: int | None = None
    minutes: float | None = None
    keep: Literal["last_and_best", "last", "all"] = "last_and_best"


class Checkpoint:
    """The state of a phase: its loop, its losses, and its `parts` by name, which are set when it begins."""

    def __init__(self, run: "Run", phase: int, loop: Loop, losses: BatchLosses) -> None:
        self.parts: dict[str, Stateful] = {}
        self.watch: LayerWatch | None = None
        self._all_parts: Mapping[str, Any] = {}  # the same, and those without a state
        self._run = run
        self._phase = phase
        self._loop = loop
        self._losses = losses
        self._saved_at = time.monotonic()

    def restore(self, parts: Mapping[str, Any]) -> None:
        """Load the state of an interrupted run into the parts of the phase."""
        run, loop, saved = self._run, self._loop, self._run.saved
        self._all_parts = parts
        self.parts = {name: part for name, part in parts.items() if hasattr(part, "state_dict")}
        if run.order.is_finished(self._phase):
            loop.is_over = True
            return
        if saved is None or saved["phase"] < self._phase:
            return
        is_longer = loop.is_longer_than(saved)
        for name, part in self.parts.items():
            state = saved["state"][name]
            if name == "schedule" and is_longer:
                state = {**state, **{key: vars(part)[key] for key in _OF_THE_WHOLE_CYCLE if key in vars(part)}}
            part.load_state_dict(state)
        lost = list(lost_state_lines(saved.get("unsaved", {})))
        if lost:
            run.folder.note(lost_state=list(dict.fromkeys((*run.folder.lock.get("lost_state", ()), *lost))))
        for line in lost:
            run.print(line)
        run.fabric.strategy.precision.load_state_dict(saved["precision"])
        loop.load_state_dict(saved)
        self._losses.load_state(saved["losses"])
        if is_longer:
            self.save()  # from now on the longer phase is the plan

    def save(self) -> None:
        """Write it."""
        run, losses = self._run, self._losses.state()
        self._saved_at = time.monotonic()
        run.record.flush()
        state = {
            "format": 1,
            **run.scores.state_dict(),
            "precision": run.fabric.strategy.precision.state_dict(),
            "phase": self._phase,
            **self._loop.state_dict(),
            "losses": losses,
            "recorded": run.record.size,
            "watch": self.watch.state_dict() if self.watch is not None else {},
            "unsaved": run.plain_state.changed(self._all_parts.values()),
            "state": {name: part.state_dict() for name, part in self.parts.items()},
        }
        run.folder.write_last(state, run.scores.rows)

    def stop(self) -> NoReturn:
        """Save, and end the run; resumed, it continues here."""
        self.save()
        raise Stopped(f"stopped and saved{self._run.next_commands}")

    def is_due(self) -> bool:
        """Whether it is time to save after a step within an epoch."""
        policy = self._run.checkpoint
        if policy.steps and (self._loop.batch // self._loop.whole.accumulate) % policy.steps == 0:
            return True
        if not policy.minutes:
            return False
        minutes: float = self._run.fabric.broadcast((time.monotonic() - self._saved_at) / 60)  # all agree
        return minutes >= policy.minutes

    def is_due_after_epoch(self) -> bool:
        """Whether it is time to save; trials that train together save less often."""
        may_save = self._run.trial is None or time.monotonic() - self._saved_at >= WRITE_EVERY
        return self._loop.is_over or (self._loop.epoch % self._run.checkpoint.epochs == 0 and may_save)


def keep_weights(phase: "Phase", *, is_needed: bool) -> None:
    """Keep the weights of an epoch that has ended, if it is the best so far, or all are kept."""
    run, loop, row = phase.run, phase.loop, phase.loop.row
    assert row is not None
    kept = {"phase": phase.number, "epoch": loop.epoch + 1}
    score, loss = run.scores.signed(*run.scores.of_epoch(row)), row.get("val.loss", row["train.loss"])
    if phase.can_be_best and loop.is_best(score, loss):
        run.scores.best_epochs[phase.name] = loop.epoch + 1
        if run.checkpoint.keep != "last" or is_needed:
            weights = {
                "model": phase.measured.state_dict(),
                "caveats": list(run.scores.caveats("val")),
                "samples": as_tensors(run.scores.columns("val")),
            }
            run.folder.write_best({**kept, **weights}, shared_weights(phase.model))
        run.fabric.barrier()
    if run.checkpoint.keep == "all":
        state = phase.checkpoint.parts["model"].state_dict()
        run.folder.write(epoch_file(phase.number, loop.epoch + 1), {**kept, "model": state})
