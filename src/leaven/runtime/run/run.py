"""A run: its folder, its checkpoints, its loggers, and how it is stopped.

The loop is in the program, where it can be read and changed; what surrounds one phase of it is in `phase.py`. A
checkpoint is written at the end of every epoch, and more often if the recipe says so. Seeds are derived from where a
run is, not from what was drawn before, so a run that is resumed ends as if it had never been interrupted.
"""

import argparse
import json
import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from leaven.formats import status_line
from leaven.formats.atomic_files import write_bytes
from leaven.formats.commands import to_peek, to_use
from leaven.formats.run_folder import (
    BEST,
    LAST,
    LOCK,
    METRICS,
    PROGRAM,
    SCORES,
    changed_argument,
    leaving_files,
    read_json,
    read_metrics,
)
from leaven.formats.run_in_progress import hold
from leaven.pictures.figure import is_installed
from leaven.runtime.data.batches import Data, Split
from leaven.runtime.failures import Failure
from leaven.runtime.model.masks import apply_masks
from leaven.runtime.run import arguments, curves, folder, progress
from leaven.runtime.run.ending import ChosenEpoch, Ending, PhasesEnded, chosen_epoch, find_ending
from leaven.runtime.run.loggers import Logger
from leaven.runtime.run.optimizer_state import load_optimizer_state
from leaven.runtime.run.phase import QUICK_BATCHES, Phase
from leaven.runtime.run.precision import precision_of, use_precision
from leaven.runtime.seeding import seed_all

if TYPE_CHECKING:
    from lightning.fabric import Fabric  # takes a second to load, and whoever only predicts needs none

MOST_NAMED = 8


@dataclass(frozen=True)
class CheckpointPolicy:
    """How often a checkpoint is written besides at the end, and which are kept. By default, after every epoch."""

    epochs: int = 1
    steps: int | None = None
    minutes: float | None = None
    keep: Literal["last_and_best", "last", "all"] = "last_and_best"


class Run:
    """A training run in a folder of its own. `monitor` is the score that decides which epoch is the best.

    `epochs` are those of all phases, for the time left. `devices`, `precision` and `strategy` are Fabric's.
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
        loggers: Iterable[Callable[[Path], Logger]] = (),
        checkpoint: CheckpointPolicy | None = None,
    ) -> None:
        self.fabric = fabric = _launched(args, devices, strategy, precision)
        self.device: torch.device = fabric.device
        self.seed = seed
        self.monitor = monitor
        self.lower_is_better = ("loss", *lower_is_better)
        self.is_quick: bool = args.quick
        self.total_epochs = epochs
        self.more_epochs: int = args.more_epochs
        self.checkpoint = checkpoint or CheckpointPolicy()
        self.snapshot = Path(args.snapshot) if args.snapshot else None  # the one file to write, with `--snapshot`
        self.folder = Path(fabric.broadcast(str(self._open_folder(args)) if fabric.is_global_zero else ""))
        self.saved = folder.read_checkpoint(self.folder / LAST) if (self.folder / LAST).is_file() else None
        self.rows: list[dict[str, Any]] = self.saved["rows"] if self.saved else []
        self.best_epochs: dict[str, int] = self.saved["best_epochs"] if self.saved else {}
        self.ending = self._find_ending(args.finish) if args.finish is not None else None
        self.chosen: ChosenEpoch | None = None  # of which the final weights are
        self.data: Data | None = None
        self.optimizer_state: Mapping[str, Any] = {}  # what the phase before left
        self.snapshots: dict[str, nn.Module] = {}  # the model as it was when a phase began
        self.phases = 0
        self.last_phase: Phase | None = None
        self.epochs_before = 0
        self._precision = fabric.strategy.precision
        self._first_phase: str | None = args.from_phase  # None once the program has come to it
        self.loggers = [make(self.folder) for make in loggers] if fabric.is_global_zero and not self.snapshot else []
        self._pin_threads(args)
        self.stop = _StopSignal(fabric)
        self.before_batch: Callable[[Phase], None] = _nothing
        self.shows_training = True  # not where the program waits before every batch
        seed_all(seed)
        verb = "finishing" if args.finish is not None else "resuming"
        self.print(f"{verb if self.saved or self.ending else 'run'} {self.folder}")

    def _open_folder(self, args: argparse.Namespace) -> Path:
        """The folder of the run, which no other process may be running; a snapshot leaves it as it is."""
        found = _open_folder(args)
        if self.snapshot is None and not hold(found, self):
            raise Failure(
                f"{found} is still running", f"stop it first, or save its best epoch so far: {to_peek(found)}"
            )
        return found

    def _find_ending(self, checkpoint: str) -> Ending | None:
        """Where the run ends. One whose phases are done ends as it would have, with what is left to do."""
        if not checkpoint and read_json(self.folder / LOCK).get("trained"):
            return None
        self.rows = read_metrics(self.folder)  # the best epoch may be a later one than that of the last checkpoint
        return find_ending(self.folder, checkpoint, keeps_best=self.checkpoint.keep != "last")

    def _pin_threads(self, args: argparse.Namespace) -> None:
        """Use as many threads as when the run began, since sums of floats depend on it. The lock gets what it lacks."""
        lock = read_json(self.folder / LOCK)
        if "threads" in lock:
            torch.set_num_threads(lock["threads"])
            if args.finish is None and lock.get("processes", self.fabric.world_size) != self.fabric.world_size:
                then, now = lock["processes"], self.fabric.world_size
                raise Failure(f"the run was started with {then} processes and can't be resumed with {now}")
        self.fabric.barrier()  # nobody reads the lock while it is written
        facts: dict[str, Any] = {"commands": [*lock.get("commands", ()), folder.typed()]}
        if "threads" not in lock:
            given = {"seed": self.seed, "processes": self.fabric.world_size, "arguments": arguments.kept(args)}
            facts = {**folder.surroundings(), **given, **facts}
        if args.finish is None:
            facts["finished"] = False
        if args.more_epochs or "threads" not in lock:
            facts["trained"] = False
        self._update_lock(**facts)

    def _update_lock(self, **facts: Any) -> None:
        if self.fabric.is_global_zero and self.snapshot is None:
            folder.write_json(self.folder / LOCK, {**read_json(self.folder / LOCK), **facts})

    def _check_data(self, data: Data) -> None:
        """A run is resumed with the data that it was started with."""
        then, now = read_json(self.folder / LOCK).get("data"), data.fingerprint()
        self.fabric.barrier()
        if then is None:
            self._update_lock(data=now)
        elif then != now:
            raise Failure(_changed(then, now), "restore the data, or start a new run")

    # -- phases

    @contextmanager
    def training(self) -> Iterator[None]:
        """All phases; with `--finish`, those after the best epoch so far are left out."""
        try:
            yield
        except PhasesEnded as ended:
            self.print(ended.told)

    def phase(
        self,
        name: str,
        model: nn.Module,
        data: Data,
        *,
        epochs: int,
        accumulate: int = 1,
        precision: str | None = None,
        compile: bool = False,
        is_last: bool = False,
    ) -> Phase:
        """The next phase, with the model on its device. Phases are numbered in the order of the calls."""
        if self.ending is not None and self.phases > self.ending.phase:
            raise PhasesEnded(name)
        use_precision(self.fabric, self._precision if precision is None else precision_of(precision))
        self.fabric.to_device(model)
        before = self.saved["planned"] - epochs if self.saved and is_last and self.saved["phase"] == self.phases else 0
        planned = epochs + max(0, before) + (self.more_epochs if is_last else 0)
        if self.data is None:
            self.data = data
            self._check_data(data)
            self.print(_summary(data))
        if name == self._first_phase:
            self._first_phase = None
        phase = Phase(self, name, self.phases, model, data, planned, self.epochs_before, accumulate, compile, is_last)
        self.last_phase = phase
        self.phases += 1
        self.epochs_before += epochs
        return phase

    def is_finished(self, number: int) -> bool:
        """Whether a phase was finished when the run was interrupted in a later one, or is that of an earlier run."""
        was_finished = self.saved is not None and bool(self.saved["phase"] > number)
        return was_finished or self._first_phase is not None

    def load_finished(self, name: str, model: nn.Module) -> None:
        """Load what a finished phase left in a file."""
        if not (self.folder / name).is_file() and self._first_phase is not None:
            help = "give the run that did the phases before: `--of RUN`"
            raise Failure(f'the phase "{self._first_phase}" has no weights to start from', help)
        if (self.folder / name).is_file():
            left = folder.read_checkpoint(self.folder / name)
            model.load_state_dict(left["model"])
            self.optimizer_state = left["optimizer_state"]

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
        """Let an optimizer continue with the state of the one in the phase before."""
        load_optimizer_state(self.optimizer_state, optimizer, model)

    # -- checkpoints

    def save(self, state: Mapping[str, Any]) -> None:
        """Write the last checkpoint; only the first process does."""
        if self.fabric.is_global_zero:
            known = {"format": 1, "rows": self.rows, "best_epochs": self.best_epochs}
            self.write(LAST, {**known, "precision": self.fabric.strategy.precision.state_dict(), **state})

    def write(self, name: str, state: Mapping[str, Any]) -> Path:
        """Write tensors into a file of the folder."""
        file = self.folder / name
        folder.write_whole(file, lambda beside: torch.save(dict(state), beside))
        return file

    def restore_precision(self) -> None:
        """Restore the scale of the gradients at half precision."""
        if self.saved:
            self.fabric.strategy.precision.load_state_dict(self.saved["precision"])

    def best(self, phase: int) -> Ending | None:
        """The best weights, if they are of that phase."""
        if not (self.folder / BEST).is_file():
            return None
        found = find_ending(self.folder, BEST, keeps_best=True)
        return found if found.phase == phase else None

    def load_best(self, model: nn.Module) -> None:
        """Load the best weights of the last phase, and make masks over pruned weights permanent."""
        if self.ending is None and self._first_phase is not None:
            raise Failure(f'there is no phase "{self._first_phase}"')
        found = self.ending or self.best(self.phases - 1)
        if found is not None and found.weights is not None:
            model.load_state_dict(found.weights)
        apply_masks(model)
        self.chosen = chosen_epoch(self.last_phase, self.rows, found.epoch if found is not None else None)
        if self.ending is None:
            self._update_lock(trained=True)
            return
        if self.chosen is not None:
            self.best_epochs[self.chosen.epoch.phase] = self.chosen.epoch.number
        self.print(f"using {self.ending.told(self.chosen)}")

    # -- scores and messages

    def signed(self, name: str, score: float) -> float:
        """A score such that higher is better."""
        return -score if name.rpartition(".")[2] in self.lower_is_better else score

    def evaluation_batches(self, split: Split) -> int:
        """About how many batches a split is evaluated in."""
        batches = math.ceil(len(split) / split.batch_size)
        return min(batches, QUICK_BATCHES) if self.is_quick else batches

    def evaluation_bar(self, split: Split) -> progress.Bar:
        """The bar of an evaluation: that of the current epoch, or of the whole run."""
        batches = self.evaluation_batches(split)
        if split.name == "val" and self.last_phase is not None:
            return self.last_phase.outlook.validation(batches)
        return progress.Bar({"val": "validation", "test": "testing"}.get(split.name, split.name), batches)

    def print(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self.fabric.is_global_zero:
            progress.say(text)

    def log_epoch(self, row: Mapping[str, Any], scores: Mapping[str, float]) -> None:
        self.rows.append(dict(row))
        if self.fabric.is_global_zero:
            folder.write_table(self.folder / METRICS, self.rows)
            for logger in self.loggers:
                logger.write(scores, len(self.rows))

    def final_scores(self, test: Mapping[str, float]) -> dict[str, float]:
        """The test scores; without a test split, the validation scores of the epoch that was chosen."""
        return dict(test) or (dict(self.chosen.scores) if self.chosen is not None else {})

    def finish(self, scores: Mapping[str, float]) -> None:
        """Write the final scores, and print a table of them."""
        if self.fabric.is_global_zero and self.snapshot is None:
            folder.write_text(self.folder / SCORES, json.dumps(self.final_scores(scores), indent=2) + "\n")
            for logger in self.loggers:
                logger.write(scores, len(self.rows))
                logger.close()
        self.print(f"\n{progress.final_table(self.rows, self.best_epochs, scores)}")
        if not self.is_quick and self.snapshot is None:
            self._show_curves()
        if self.data is not None and self.data.skipped:
            self.print(_skipped(self.data.skipped))

    def _show_curves(self) -> None:
        """Print the curves, and save them as a figure."""
        shown = curves.chart(self.rows, self.monitor, getattr(sys.stdout, "encoding", None))
        is_saved = self.fabric.is_global_zero and self.snapshot is None
        saved = curves.save(self.rows, self.best_epochs, self.folder) if is_saved else ""
        if shown or saved:
            self.print("\n" + "\n".join(filter(None, (shown, saved))))

    def save_figure(self, name: str, draw: Callable[[], bytes]) -> None:
        """Write a figure into the folder, if it can be drawn here; the run goes on if it can't."""
        if self.is_quick or not self.fabric.is_global_zero or self.snapshot is not None or not is_installed():
            return
        try:
            write_bytes(self.folder / name, draw())
        except Exception as problem:  # whatever matplotlib raises
            self.print(f"{name} could not be drawn: {type(problem).__name__}: {problem}")

    def announce(self, file: Path, *, trust_code: bool = False) -> None:
        """Note that the run is finished, and print where the model is and how to use it."""
        self._update_lock(finished=True)
        self.print(f"\nsaved {file}\n{to_use(file, trust_code=trust_code)}")
        if self.is_quick:
            self.print("smoke test passed; the model is not trained")


def _launched(args: argparse.Namespace, devices: int | str, strategy: str, precision: str) -> "Fabric":
    from lightning.fabric import Fabric

    fabric = Fabric(
        devices=args.devices or devices,
        num_nodes=args.machines,
        strategy=strategy,
        precision=precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


class _StopSignal:
    """Ctrl-C, or a cluster's SIGTERM: the first asks the run to save and stop, the second stops it at once."""

    def __init__(self, fabric: "Fabric") -> None:
        self._fabric = fabric
        self.is_pressed_here = False
        if threading.current_thread() is threading.main_thread():  # signals can only be caught there
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._press)

    def _press(self, number: int, _frame: FrameType | None) -> None:
        if self.is_pressed_here:
            os._exit(128 + number)
        self.is_pressed_here = True
        if self._fabric.is_global_zero:
            start = b"\r\x1b[K" if status_line.is_watched() else b"\n"
            os.write(2, start + b"stopping after this step; press Ctrl-C again to quit\n")  # `print` could be running

    def is_pressed(self) -> bool:
        """Whether any process was asked to stop: they must agree, or one would wait for the others forever."""
        if self._fabric.world_size == 1:
            return self.is_pressed_here
        agreed = self._fabric.all_reduce(torch.tensor(float(self.is_pressed_here)), reduce_op="sum")
        return isinstance(agreed, Tensor) and bool(agreed.item() > 0)


def _nothing(_phase: Phase) -> None:
    """Nothing happens before a batch."""


def _summary(data: Data) -> str:
    """`1,437 samples for training, 180 for validation, 180 for testing; 10 classes`."""
    counts = [(len(data.train), "training"), (len(data.val), "validation"), (len(data.test), "testing")]
    parts = [f"{count:,}{' samples' * (not at)} for {purpose}" for at, (count, purpose) in enumerate(counts) if count]
    return f"{', '.join(parts)}; {data.target.brief}"


def _changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How the data differs from what a run was started with."""
    if then.get("outputs") != now["outputs"]:
        before, after = _few(then.get("outputs", ())), _few(now["outputs"])
        return f"the model predicted {before} when the run was started, now {after}"
    for split in ("train", "val", "test"):
        if then.get(split) != now[split]:
            return f"{split} had {then.get(split)} samples when the run was started, now {now[split]}"
    return "the data has other samples than when the run was started"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def _skipped(files: Sequence[str]) -> str:
    """`2 files could not be read and were skipped: a.jpg, b.jpg`."""
    verb = "file could not be read and was" if len(files) == 1 else "files could not be read and were"
    return f"\n{len(files)} {verb} skipped: {_few(files)}"


def _open_folder(args: argparse.Namespace) -> Path:
    """The folder of the run: that of a resumed one, or a new one with a copy of the program in it."""
    if args.resume:
        found = Path(args.resume)
    else:
        found = folder.new_folder(args.output, is_quick=args.quick)
        program = Path(sys.argv[0])
        if program.suffix == ".py" and program.is_file():
            shutil.copyfile(program, found / PROGRAM)
    _copy_phases(args, found)
    return found


def _copy_phases(args: argparse.Namespace, into: Path) -> None:
    """Copy what the phases of an earlier run left, for a run that starts with a later one."""
    left = leaving_files(Path(args.of)) if args.of else []
    if args.of and not left:
        raise Failure(f"{args.of} is not a run with finished phases")
    if left and args.from_phase and (changed := changed_argument(Path(args.of), args.from_phase, vars(args))):
        raise Failure(changed, f"the phases before {args.from_phase} depend on it: run them again")
    for file in left:
        if not (into / file.name).exists():
            shutil.copyfile(file, into / file.name)
