"""A run: its folder, its checkpoints, its loggers, and how it is stopped.

The loop is in the program, where it can be read and changed; what surrounds one phase of it is in `phase.py`. A
checkpoint is written at the end of every epoch, and more often if the recipe says so. Seeds are derived from where a
run is, not from what was drawn before, so a run that is resumed ends as if it had never been interrupted.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import torch
from torch import nn

from leaven.files.atomic_files import remove_unfinished
from leaven.formats.run_folder import CURVES, LAST, leaving_file, read_metrics
from leaven.formats.run_in_progress import hold
from leaven.formats.sweep_folder import CHOSEN, DIVERGED
from leaven.pictures.curves import draw_curves
from leaven.pictures.figure import is_installed
from leaven.runtime.data.batches import Data, IndexedSplit, Split
from leaven.runtime.failures import Failure, Stopped, Trained
from leaven.runtime.model.masks import apply_masks
from leaven.runtime.run import arguments, curves, folder, progress
from leaven.runtime.run.ending import ChosenEpoch, Ending, PhasesEnded, chosen_epoch, saved_so_far
from leaven.runtime.run.folder import RunFolder
from leaven.runtime.run.guard import end_at_once
from leaven.runtime.run.length import EpochSize, Length, length_of
from leaven.runtime.run.loggers import Logger
from leaven.runtime.run.loop import Loop
from leaven.runtime.run.measuring import choose_batch_size
from leaven.runtime.run.optimizer_state import load_optimizer_state
from leaven.runtime.run.phase import QUICK_BATCHES, Phase
from leaven.runtime.run.placed_model import PlacedModel
from leaven.runtime.run.placement import fix_buckets, strategy_of
from leaven.runtime.run.precision import fabric_with, precision_of, use_precision
from leaven.runtime.run.rank_watch import RANKS
from leaven.runtime.run.stopping import StopSignal
from leaven.runtime.seeding import seed_all
from leaven.runtime.stored.storing import store_decoded
from leaven.runtime.trials.group import current_trial
from leaven.terminal.commands import to_finish, to_peek, to_resume, to_use

if TYPE_CHECKING:
    from lightning.fabric import Fabric  # takes a second to load, and whoever only predicts needs none

Value = TypeVar("Value")


@dataclass(frozen=True)
class CheckpointPolicy:
    """How often a checkpoint is written besides at the end, and which are kept. By default, after every epoch."""

    epochs: int = 1
    steps: int | None = None
    minutes: float | None = None
    keep: Literal["last_and_best", "last", "all"] = "last_and_best"


class Judged(Protocol):
    """An evaluation that can be compared with a guess."""

    def caveats(self) -> tuple[str, ...]: ...


class Run:
    """A training run in a folder of its own. `monitor` is the score that decides which epoch is the best.

    `epochs` are those of all phases, for the time left. `devices`, `precision` and `strategy` are Fabric's. `threads`
    compute on a CPU, by default one per core; a run that is resumed has as many as before.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        *,
        seed: int,
        monitor: str,
        epochs: int = 0,
        lower_is_better: Sequence[str] = (),
        devices: int | str = "auto",
        strategy: str = "auto",
        precision: str = "32-true",
        threads: int | None = None,
        loggers: Iterable[Callable[[Path], Logger]] = (),
        checkpoint: CheckpointPolicy | None = None,
    ) -> None:
        self.fabric = fabric = _launched(args, devices, strategy, precision)
        self.trial = current_trial()  # among others that train together
        self.device: torch.device = fabric.device
        self.seed = seed
        self.monitor = monitor
        self.lower_is_better = ("loss", *lower_is_better)
        self.is_quick: bool = args.quick
        self._total_epochs = epochs
        self.more_epochs: int = args.more_epochs
        self.checkpoint = checkpoint or CheckpointPolicy()
        named = Path(fabric.broadcast(str(self._open_folder(args)) if fabric.is_global_zero else ""))
        writes = fabric.is_global_zero and args.snapshot is None
        self.folder = RunFolder(named, writes=writes, waits=self.trial is not None)
        RANKS.folder = named
        self.saved = self.folder.read(LAST)
        self.rows: list[dict[str, Any]] = self.saved["rows"] if self.saved else []
        self.best_epochs: dict[str, int] = self.saved["best_epochs"] if self.saved else {}
        self.ending = self._find_ending(args)
        self.chosen: ChosenEpoch | None = None  # of which the final weights are
        self.judged: dict[str, Judged] = {}  # the last evaluation of each split
        self.caveats: tuple[str, ...] = ()  # about a model that learned nothing
        self.data: Data | None = None
        self.optimizer_state: Mapping[str, Any] = {}  # what the phase before left
        self.unsaved_state: dict[str, dict[str, Any]] = {}  # of the user's code when training began, by owner
        self.phases = 0
        self._names: Sequence[str] = ()  # of the phases, where there are several
        self.last_phase: Phase | None = None
        self.is_trained = False  # whether the final weights are known
        self.epochs_before = 0
        self._precision = fabric.strategy.precision
        self._from_phase: str | None = args.from_phase
        self._first = 0  # the first phase that this run does itself
        self.loggers = [make(self.folder.path) for make in loggers] if writes else []
        processes_before = self._record_start(args, threads)
        self.stop = StopSignal(fabric) if self.trial is None else self.trial.group.stop
        self.before_batch: Callable[[Phase], object] = lambda _: None
        self.uses_planner = not self.is_quick
        self.shows_training = self.trial is None  # nor where the program waits before every batch
        seed_all(seed)
        verb = "finishing" if args.finish is not None else "resuming"
        self.print(f"{verb if self.saved or not self.ending.trains else 'run'} {named}")
        if processes_before is not None:
            self.print(
                f"with {_processes(fabric.world_size)} instead of {processes_before}: sums are added in another order,"
                " so the result is close, but not bit-identical"
            )

    def _open_folder(self, args: argparse.Namespace) -> Path:
        """The folder of the run, which no other process may be running; a snapshot leaves it as it is."""
        found = folder.open_folder(args)
        if args.snapshot is None and not hold(found, self):
            raise Failure(
                f"{found} is still running", f"stop it first, or save its best epoch so far: {to_peek(found)}"
            )
        return found

    def _find_ending(self, args: argparse.Namespace) -> Ending:
        saved = None
        if args.finish is not None:
            saved = saved_so_far(self.folder, args.finish, keeps_best=self.checkpoint.keep != "last")
        if saved is not None:  # the best epoch may be a later one than that of the last checkpoint
            self.rows = read_metrics(self.folder.path)
        return Ending(saved, Path(args.snapshot) if args.snapshot else None, is_trial=args.train_only)

    def _record_start(self, args: argparse.Namespace, threads: int | None) -> int | None:
        """Note in the lock what the run runs with; one that is resumed runs with what is there.

        Returns with how many processes it has run so far, if it is resumed with another number.
        """
        lock = self.folder.lock
        is_new, finishes, now = "threads" not in lock, args.finish is not None, self.fabric.world_size
        before = lock.get("processes", now)
        is_other = not is_new and not finishes and before != now
        if not is_new and not is_other:  # sums of floats depend on the number of threads
            threads = lock["threads"]
        if threads is not None:
            torch.set_num_threads(threads)
        self.fabric.barrier()  # nobody reads the lock while it is written
        if self.folder.writes:
            remove_unfinished(self.folder.path, (".ckpt", ".bundle"))
        facts: dict[str, Any] = {"commands": [*lock.get("commands", ()), folder.started_by()]}
        if is_new:
            given = {"seed": self.seed, "processes": now, "arguments": arguments.kept(args)}
            facts = {**folder.surroundings(), **given, **facts}
        if is_other:
            facts |= self._other_processes(lock, args)
        if not finishes:
            facts |= {"finished": False} | ({DIVERGED: ""} if DIVERGED in lock else {})  # it may not do so again
        if args.more_epochs or is_new:
            facts["trained"] = False
        self.folder.note(**facts)
        return before if is_other and self.saved is not None else None

    def _other_processes(self, lock: Mapping[str, Any], args: argparse.Namespace) -> dict[str, Any]:
        """What the lock notes about a run that goes on with another number of processes, and from where on."""
        now, saved = self.fabric.world_size, self.saved or {"phase": 0, "epoch": 0, "batch": 0}
        where = {name: saved[name] for name in ("phase", "epoch", "batch")}
        return {
            "processes": now,
            "threads": torch.get_num_threads(),
            "arguments": {**lock["arguments"], "devices": args.devices},
            "earlier_processes": [*lock.get("earlier_processes", ()), {"processes": lock["processes"], "until": where}],
        }

    @property
    def next_commands(self) -> str:
        """What to type to go on with the run, when it is stopped; of a trial, the sweep tells."""
        if self.ending.is_trial:
            return ""
        finish = f"\nto use its best epoch so far: {to_finish(self.folder.named)}" if self.rows else ""
        return f"; to resume: {to_resume(self.folder.named)}{finish}"

    def note_workers(self, data: Data) -> None:
        """Note in the lock how many worker processes load each split."""
        splits = [split for split in (data.train, data.val) if isinstance(split, IndexedSplit)]
        self.folder.note(workers={split.name: split.workers for split in splits})

    def _check_data(self, data: Data) -> None:
        """A run is resumed with the data that it was started with."""
        then, now = self.folder.lock.get("data"), data.fingerprint()
        self.fabric.barrier()
        if then is None:
            self.folder.note(data=now)
        elif then != now:
            raise Failure(progress.data_difference(then, now), "restore the data, or start a new run")

    # -- phases

    @contextmanager
    def training(self, first: str, /, *others: str) -> Iterator[None]:
        """All phases, by their names; with `--finish`, those after the best epoch so far are left out."""
        self._announce((first, *others))
        try:
            yield
        except PhasesEnded as ended:
            self.print(f'left out: phase "{ended}" and those after it')

    def _announce(self, phases: Sequence[str]) -> None:
        self._names = phases
        if self._from_phase is not None:
            if self._from_phase not in phases:
                raise Failure(f'there is no phase "{self._from_phase}"')
            self._first = phases.index(self._from_phase)

    def store_decoded(self, split: Split, *, transforms: int = 0, exact: bool = True) -> None:
        """Decode each image of a split once, and apply the first `transforms`: later epochs and runs read the result.

        Nothing else changes, unless it need not be `exact`: then a JPEG file that is resized to at most half of its
        size is decoded at a smaller one. Where that is not possible or not faster, images are decoded in every epoch,
        and a line says why.
        """
        if self.is_planned:
            store_decoded(self, split, transforms, exact=exact)

    def choose_batch_size(self, model: nn.Module, data: Data) -> None:
        """Let batches have twice as many samples, or twice that, …, as long as that is measured to be faster."""
        self.fabric.to_device(model)
        choose_batch_size(self, model, data, may_measure=self.is_planned)

    @property
    def is_planned(self) -> bool:
        """Whether outputs are stored and settings measured: as the planner decided, and something is left to train."""
        return self.uses_planner and self.ending.trains and not self.folder.lock.get("trained")

    def phase(
        self,
        name: str,
        model: nn.Module,
        data: Data,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        samples: int | None = None,
        minutes: float | None = None,
        accumulate: int = 1,
        precision: str | None = None,
        compile: bool = False,
    ) -> Phase:
        """The next phase, with the model on its device. Phases are numbered in the order of the calls.

        Its length is a number of `epochs`, optimizer `steps` or `samples`, or of `minutes` of training.
        """
        length = length_of(epochs=epochs, steps=steps, samples=samples, minutes=minutes)
        if not self._names:
            self._announce((name,))
        if self.phases >= len(self._names):
            raise Failure(
                f'the phase "{name}" is not announced',
                f"in `main`, call it within a block `with run.training(…, {json.dumps(name, ensure_ascii=False)}):`",
            )
        is_last = self.phases + 1 == len(self._names)
        if self.ending.saved is not None and self.phases > self.ending.saved.phase:
            raise PhasesEnded(name)
        use_precision(self.fabric, self._precision if precision is None else precision_of(precision))
        self.fabric.to_device(model)
        epoch = self._epoch(data.train, accumulate)
        if is_last:
            if self.saved and self.saved["phase"] == self.phases:
                length = replace(length, amount=max(length.amount, self.saved["planned"]))
            length = length.longer_by(self.more_epochs, epoch)
        if self.is_quick:
            length = Length(min(length.amount, 1))
        if self.data is None:
            self.data = data
            self._check_data(data)
            self.print(progress.data_summary(data))
        loop = Loop(length, epoch)
        phase = Phase(self, name, self.phases, model, data, loop, self.epochs_before, compile, is_last)
        self.last_phase = phase
        self.phases += 1
        self.epochs_before += loop.most_epochs
        return phase

    def _epoch(self, train: Split, accumulate: int) -> EpochSize:
        batches = train.steps(self.fabric.world_size)
        batches = min(batches, QUICK_BATCHES) if self.is_quick else batches
        return EpochSize(batches, len(train), train.batch_size, accumulate)

    def epochs_after(self, done: int) -> int | None:
        """How many epochs are left after so many; None where only the program knows."""
        later = self._total_epochs - done
        return None if self.is_quick or later < 0 else later + self.more_epochs

    def is_finished(self, number: int) -> bool:
        """Whether a phase was finished when the run was interrupted in a later one, or is that of an earlier run."""
        return number < self._first or (self.saved is not None and bool(self.saved["phase"] > number))

    def load_finished(self, number: int, model: nn.Module) -> None:
        """Load what a finished phase has left."""
        left = self.folder.read(leaving_file(number))
        if left is None and number < self._first:
            help = "give the run that did the phases before: `--of RUN`"
            raise Failure(f'the phase "{self._from_phase}" has no weights to start from', help)
        if left is not None:
            model.load_state_dict(left["model"])
            self.optimizer_state = left["optimizer_state"]

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
        """Let an optimizer continue with the state of the one in the phase before."""
        load_optimizer_state(self.optimizer_state, optimizer, model)

    # -- checkpoints

    def save(self, state: Mapping[str, Any]) -> None:
        """Write the last checkpoint."""
        known = {"format": 1, "rows": self.rows, "best_epochs": self.best_epochs}
        precision = self.fabric.strategy.precision.state_dict()
        self.folder.write_last({**known, "precision": precision, **state}, self.rows)

    def load_best(self, model: nn.Module) -> None:
        """Load the best weights of the last phase, and make masks over pruned weights permanent."""
        assert self.last_phase is not None, "the program has no phase"
        name, loop = self.last_phase.name, self.last_phase.loop
        if self.ending.is_trial and self.ending.trains:
            keeps_best = self.checkpoint.keep != "last" or loop.is_stopped_early
            self._note_trained(self.best_epochs.get(name, loop.epoch) if keeps_best else None)
            self._close_loggers()
            raise Trained
        found = self.ending.saved or self.folder.best_of(self.phases - 1)
        if found is not None and found.weights is not None:
            model.load_state_dict(found.weights)
        apply_masks(model)
        self.is_trained = True
        self.caveats = found.caveats if found is not None else self.caveats_about("val")
        self.chosen = chosen_epoch(name, loop, self.rows, found)
        number = self.chosen.epoch.number if self.chosen is not None else None
        if self.ending.trains:
            self._note_trained(number)
            return
        if number is not None:
            self.best_epochs[name] = number
        self.print(self.ending.line(self.chosen))

    def _note_trained(self, chosen: int | None) -> None:
        self.folder.note(trained=True, **{CHOSEN: chosen})

    # -- scores and messages

    def signed(self, name: str, score: float) -> float:
        """A score such that higher is better."""
        return -score if name.rpartition(".")[2] in self.lower_is_better else score

    def evaluation_batches(self, split: Split) -> int:
        """About how many batches a split is evaluated in."""
        batches = math.ceil(len(split) / split.batch_size)
        return min(batches, QUICK_BATCHES) if self.is_quick else batches

    def whole(self, model: nn.Module) -> AbstractContextManager[Any]:
        """While a model is evaluated, every process has all of its parameters."""
        return model.whole() if isinstance(model, PlacedModel) else nullcontext()

    def evaluation_bar(self, split: Split) -> progress.Bar:
        """The bar of an evaluation: that of the current epoch, or of the whole run."""
        batches = self.evaluation_batches(split)
        if split.name == "val" and self.last_phase is not None:
            return self.last_phase.outlook.validation(batches)
        return progress.Bar({"val": "validation", "test": "testing"}.get(split.name, split.name), batches)

    def stop_if_asked(self) -> None:
        """Between two batches of an evaluation: stop where nothing is lost, and the evaluation is done again.

        Several processes may have different numbers of batches; they stop after the next step.
        """
        if not self.is_asked_to_stop():
            return
        if self.last_phase is not None and self.last_phase.awaits_scores:
            self.last_phase.stop()
        if self.is_trained:
            raise Stopped(f"stopped; {self.ending.once_more(self.folder.named)}")

    def stop_here(self) -> None:
        """Where nothing is lost that a resumed run would not do again: stop, if that is asked for."""
        if self.is_asked_to_stop():
            raise Stopped(f"stopped{self.next_commands}")

    def is_asked_to_stop(self) -> bool:
        """Whether a single process may stop here; several stop after the next step."""
        return self.fabric.world_size == 1 and self.stop.is_pressed_here

    def gathered(self, value: Value) -> list[Value]:
        """A value of every process, in their order."""
        if self.fabric.world_size == 1:
            return [value]
        found: list[Any] = [None] * self.fabric.world_size
        torch.distributed.all_gather_object(found, value)
        return found

    def print(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self.fabric.is_global_zero and self.trial is None:
            progress.say(text)

    def log_epoch(self, row: Mapping[str, Any], scores: Mapping[str, float]) -> None:
        self.rows.append(dict(row))
        self.folder.write_metrics(self.rows)
        for logger in self.loggers:
            logger.write(scores, len(self.rows))

    def caveats_about(self, split: str) -> tuple[str, ...]:
        """What the last evaluation of a split says about a model that is no better than a guess."""
        judged = self.judged.get(split)
        return judged.caveats() if judged is not None else ()

    def final_scores(self, test: Mapping[str, float]) -> dict[str, float]:
        """The test scores; without a test split, the validation scores of the epoch that was chosen."""
        return dict(test) or (dict(self.chosen.scores) if self.chosen is not None else {})

    def report(self, scores: Mapping[str, float]) -> None:
        """Write the final scores, and print a table of them."""
        self.folder.write_scores(self.final_scores(scores))
        for logger in self.loggers:
            logger.write(scores, len(self.rows))
        self._close_loggers()
        self.print(f"\n{progress.final_table(self.rows, self.best_epochs, scores)}")
        if scores:
            self.caveats = self.caveats_about("test")
        if not self.is_quick:
            self.folder.note(caveats=list(self.caveats))
            if self.caveats:
                self.print("\n".join(["", *self.caveats]))
        if not self.is_quick and self.ending.snapshot is None:
            self._show_curves()
        if self.data is not None and self.data.skipped:
            self.print(f"\n{progress.skipped_line(self.data.skipped)}")

    def _close_loggers(self) -> None:
        for logger in self.loggers:
            logger.close()

    def _show_curves(self) -> None:
        """Print the curves, and save them as a figure; one epoch has none."""
        if len(self.rows) < 2:
            return
        chart = curves.chart(self.rows, self.monitor, getattr(sys.stdout, "encoding", None))
        names = curves.score_names(self.rows)
        file = self.save_figure(CURVES, lambda: draw_curves(self.rows, names, self.best_epochs))
        self.print("\n".join(["", *([chart] if chart else []), *([f"  curves: {file}"] if file else [])]))

    def save_figure(self, name: str, draw: Callable[[], bytes]) -> Path | None:
        """Write a figure into the folder, if it can be drawn here; the run goes on if it can't."""
        if self.is_quick or not self.folder.writes or not is_installed():
            return None
        try:
            return self.folder.write_figure(name, draw())
        except Exception as problem:  # whatever matplotlib raises
            self.print(f"{name} could not be drawn: {type(problem).__name__}: {problem}")
            return None

    def announce(self, file: Path, *, trust_code: bool = False, example: str = "photo.jpg") -> None:
        """Note that the run is finished, and print where the model is and how to use it."""
        self.folder.note(finished=True)
        shown = self.folder.named / file.name if file.parent == self.folder.path else file
        self.print(f"\nsaved {shown}\n{to_use(shown, trust_code=trust_code, example=example)}")
        if self.is_quick:
            self.print("smoke test passed; the model is not trained")


def _launched(args: argparse.Namespace, devices: int | str, strategy: str, precision: str) -> "Fabric":
    fabric = fabric_with(
        devices=args.devices or devices, num_nodes=args.machines, strategy=strategy_of(strategy), precision=precision
    )
    fix_buckets(fabric)
    RANKS.begin(fabric, end_at_once)
    fabric.launch()
    return fabric


def _processes(count: int) -> str:
    return f"{count} process{'es' * (count > 1)}"
