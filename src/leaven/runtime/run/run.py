"""A run: its folder, its checkpoints, its records, and how it is stopped.

The loop stands in the program, where it can be read and changed; what surrounds one stretch of it is in `phase.py`.
A checkpoint is written when an epoch ends, and oftener if the recipe says so. Chance comes from where the run is, not
from what happened before, so a run that goes on from its last checkpoint ends as if it had never been interrupted.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from leaven.formats.run_folder import BEST, LAST, LOCK, METRICS, PROGRAM, SCORES, leaving_files, read_json
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Failure
from leaven.runtime.model.masks import apply_masks
from leaven.runtime.run import arguments, folder, progress
from leaven.runtime.run.commands import to_use
from leaven.runtime.run.loggers import Logger
from leaven.runtime.run.optimizer_state import load_optimizer_state
from leaven.runtime.run.phase import Phase
from leaven.runtime.run.precision import precision_of, use_precision
from leaven.runtime.seeding import seed_all

if TYPE_CHECKING:
    from lightning.fabric import Fabric  # takes a second to load, and whoever only predicts needs none

MOST_NAMED = 8


@dataclass(frozen=True)
class CheckpointPolicy:
    """How often training is saved besides at the end, and what is kept. Where nothing is said, after every epoch."""

    epochs: int = 1
    steps: int | None = None
    minutes: float | None = None
    keep: Literal["last_and_best", "last", "all"] = "last_and_best"


class Run:
    """A whole training, in a folder of its own. `monitor` is the score that says which epoch was the best."""

    def __init__(
        self,
        args: argparse.Namespace,
        fabric: "Fabric",
        *,
        seed: int,
        monitor: str,
        lower_is_better: Sequence[str] = (),
        loggers: Iterable[Callable[[Path], Logger]] = (),
        checkpoint: CheckpointPolicy | None = None,
    ) -> None:
        self.fabric = fabric
        self.seed = seed
        self.monitor = monitor
        self.lower_is_better = ("loss", *lower_is_better)
        self.is_quick: bool = args.quick
        self.more_epochs: int = args.more_epochs
        self.checkpoint = checkpoint or CheckpointPolicy()
        self.folder = Path(fabric.broadcast(str(_open_folder(args)) if fabric.is_global_zero else ""))
        self.saved = _read_checkpoint(self.folder / LAST) if (self.folder / LAST).is_file() else None
        self.rows: list[dict[str, Any]] = self.saved["rows"] if self.saved else []
        self.best_epochs: dict[str, int] = self.saved["best_epochs"] if self.saved else {}
        self.data: Data | None = None
        self.optimizer_state: Mapping[str, Any] = {}
        self._snapshots: dict[str, nn.Module] = {}
        self.phases = 0
        self._numbers = fabric.strategy.precision
        self._awaited: str | None = args.from_phase  # the phase to begin with, until the program comes to it
        self.epochs_before = 0
        self.loggers = [make(self.folder) for make in loggers] if fabric.is_global_zero else []
        self._pin_threads(args)
        self.stop = _StopButton(fabric)
        self.before_batch: Callable[[Phase], None] = _at_once
        seed_all(seed)
        self.print(f"{'going on with' if self.saved else 'run'} {self.folder}")

    def _pin_threads(self, args: argparse.Namespace) -> None:
        """Compute with as many threads as when the run began, since sums of floats depend on it; else note it down."""
        lock = read_json(self.folder / LOCK)
        if "threads" in lock:
            torch.set_num_threads(lock["threads"])
            if lock.get("processes", self.fabric.world_size) != self.fabric.world_size:
                then, now = lock["processes"], self.fabric.world_size
                raise Failure(f"the run was begun with {then} processes and can't go on with {now}")
        self.fabric.barrier()  # nobody reads the lock while it is written
        if self.fabric.is_global_zero and "threads" not in lock:
            more = {"seed": self.seed, "processes": self.fabric.world_size, "arguments": arguments.kept(args)}
            folder.write_lock(self.folder / LOCK, {**lock, **more})
        if args.more_epochs:
            self._update_lock(finished=False)

    def _update_lock(self, **facts: Any) -> None:
        """Add to the lock."""
        if self.fabric.is_global_zero:
            folder.write_json(self.folder / LOCK, {**read_json(self.folder / LOCK), **facts})

    def _check_data(self, data: Data) -> None:
        """A run goes on with the data that it began with."""
        then, now = read_json(self.folder / LOCK).get("data"), data.fingerprint()
        self.fabric.barrier()
        if then is None:
            self._update_lock(data=now)
        elif then != now:
            raise Failure(_changed(then, now), "put it back as it was, or begin a new run")

    def phase(
        self,
        name: str,
        *,
        epochs: int,
        data: Data,
        accumulate: int = 1,
        precision: str | None = None,
        is_last: bool = False,
    ) -> Phase:
        """The next phase. Phases are numbered in the order in which the program asks for them."""
        use_precision(self.fabric, self._numbers if precision is None else precision_of(precision))
        before = self.saved["planned"] - epochs if self.saved and is_last and self._is_in(self.phases) else 0
        planned = epochs + max(0, before) + (self.more_epochs if is_last else 0)
        if self.data is None:
            self.data = data
            self._check_data(data)
            self.print(_summary(data))
        if name == self._awaited:
            self._awaited = None
        phase = Phase(self, name, self.phases, planned, data, accumulate, self.epochs_before)
        self.phases += 1
        self.epochs_before += epochs
        return phase

    def is_past(self, number: int) -> bool:
        """Whether a phase was over when the run was interrupted in a later one, or is left to an earlier run."""
        was_over = self.saved is not None and bool(self.saved["phase"] > number)
        return was_over or self._awaited is not None

    def _is_in(self, number: int) -> bool:
        return self.saved is not None and bool(self.saved["phase"] == number)

    # -- what is saved

    def save(self, state: Mapping[str, Any]) -> None:
        """Write the last checkpoint; only one process does."""
        if self.fabric.is_global_zero:
            self.write(
                LAST,
                {
                    "format": 1,
                    "rows": self.rows,
                    "best_epochs": self.best_epochs,
                    "precision": self._precision().state_dict(),
                    **state,
                },
            )

    def write(self, name: str, state: Mapping[str, Any]) -> Path:
        """Write tensors into the folder; the file that they are in."""
        file = self.folder / name
        folder.write_whole(file, lambda beside: torch.save(dict(state), beside))
        return file

    def restore_precision(self) -> None:
        """The scale of the gradients at half precision, as it was saved."""
        if self.saved:
            self._precision().load_state_dict(self.saved["precision"])

    def _precision(self) -> Any:
        return self.fabric.strategy.precision

    def best(self, phase: int) -> Mapping[str, Tensor] | None:
        """The best weights of a phase, if it is the one that left them."""
        if not (self.folder / BEST).is_file():
            return None
        found = _read_checkpoint(self.folder / BEST)
        return found["module"] if found["phase"] == phase else None

    # -- from phase to phase

    def load_finished(self, name: str, module: nn.Module) -> None:
        """Put into the model what a phase that is over left in a file."""
        if not (self.folder / name).is_file() and self._awaited is not None:
            help = "say which run has done the phases before: `--of RUN`"
            raise Failure(f'there is nothing for "{self._awaited}" to begin with', help)
        if (self.folder / name).is_file():
            left = _read_checkpoint(self.folder / name)
            module.load_state_dict(left["module"])
            self.optimizer_state = left["gathered"]

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, module: nn.Module) -> None:
        """Let an optimizer go on with what the one of the phase before has gathered."""
        load_optimizer_state(self.optimizer_state, optimizer, module)

    def add_snapshot(self, phase: str, module: nn.Module) -> None:
        """Keep a copy of the model, as it is when a phase begins."""
        self._snapshots[phase] = module

    def snapshot(self, phase: str) -> nn.Module:
        """The model as it was when a phase began."""
        return self._snapshots[phase]

    # -- what is told

    def print(self, text: str) -> None:
        if self.fabric.is_global_zero:
            progress.say(text)

    def log_epoch(self, row: Mapping[str, Any], scores: Mapping[str, float]) -> None:
        """Write down an epoch."""
        self.rows.append(dict(row))
        if self.fabric.is_global_zero:
            folder.write_table(self.folder / METRICS, self.rows)
            for logger in self.loggers:
                logger.write(scores, len(self.rows))

    def finish(self, module: nn.Module, evaluate: Callable[[nn.Module], Mapping[str, float]]) -> dict[str, float]:
        """Take the best weights of the last phase, and measure them once on data that nothing was chosen by."""
        if self._awaited is not None:
            raise Failure(f'no phase is called "{self._awaited}"')
        best = self.best(self.phases - 1)
        if best is not None:
            module.load_state_dict(best)
        apply_masks(module)
        scores = dict(evaluate(module))
        if self.fabric.is_global_zero:
            folder.write_text(self.folder / SCORES, json.dumps(scores, indent=2) + "\n")
            for logger in self.loggers:
                logger.write(scores, len(self.rows))
                logger.close()
        self.print(f"\n{progress.final_table(self.rows, self.best_epochs, scores)}")
        if self.data is not None and self.data.skipped:
            self.print(_left_out(self.data.skipped))
        return scores

    def announce(self, file: Path, *, trust_code: bool = False) -> None:
        """Say where the model is, and how to use it."""
        self._update_lock(finished=True)
        self.print(f"\nmade {file}\n{to_use(file, trust_code=trust_code)}")
        if self.is_quick:
            self.print("it log two batches: everything works, and it knows nothing")


class _StopButton:
    """Ctrl-C, or a cluster's SIGTERM: the first asks the run to save and end, the second ends it at once."""

    def __init__(self, fabric: "Fabric") -> None:
        self._fabric = fabric
        self.is_pressed_here = False
        if threading.current_thread() is threading.main_thread():  # only there can signals be caught
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._press)

    def _press(self, number: int, _frame: FrameType | None) -> None:
        if self.is_pressed_here:
            os._exit(128 + number)
        self.is_pressed_here = True
        if self._fabric.is_global_zero:
            os.write(2, b"\nstopping after this step; once more to leave at once\n")  # printing could be going on

    def is_pressed(self) -> bool:
        """Whether any process was asked to stop: they must agree, or one would wait for the others forever."""
        if self._fabric.world_size == 1:
            return self.is_pressed_here
        agreed = self._fabric.all_reduce(torch.tensor(float(self.is_pressed_here)), reduce_op="sum")
        return isinstance(agreed, Tensor) and bool(agreed.item() > 0)


def _at_once(_phase: Phase) -> None:
    """Nothing holds a run up."""


def _summary(data: Data) -> str:
    """`1,437 items to train on, 180 to choose the best epoch by, 180 to test; 10 classes`."""
    counts = [
        (len(data.train), "to train on"),
        (len(data.val), "to choose the best epoch by"),
        (len(data.test), "to test"),
    ]
    told = [f"{count:,}{' items' * (not at)} {purpose}" for at, (count, purpose) in enumerate(counts) if count]
    return f"{', '.join(told)}; {data.target.brief}"


def _changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How the data differs from what a run began with."""
    if then.get("outputs") != now["outputs"]:
        before, after = _few(then.get("outputs", ())), _few(now["outputs"])
        return f"the model was to predict {before} when the run began, and now {after}"
    for part in ("train", "val", "test"):
        if then.get(part) != now[part]:
            return f"{part} had {then.get(part)} items when the run began, and has {now[part]}"
    return "the data has other items than when the run began"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def _left_out(files: Sequence[str]) -> str:
    """`2 files could not be read and were skipped: a.jpg, b.jpg`."""
    verb = "file could not be read and was" if len(files) == 1 else "files could not be read and were"
    return f"\n{len(files)} {verb} skipped: {_few(files)}"


def _open_folder(args: argparse.Namespace) -> Path:
    """The folder of the run: the one to go on in, or a new one, with a copy of the program in it."""
    if args.resume:
        found = Path(args.resume)
    else:
        found = folder.new_folder(args.output, is_quick=args.quick)
        program = Path(sys.argv[0])
        if program.suffix == ".py" and program.is_file():
            shutil.copyfile(program, found / PROGRAM)
    _take_over(args, found)
    return found


def _take_over(args: argparse.Namespace, into: Path) -> None:
    """What the phases of an earlier run left, for a run that begins later."""
    left = leaving_files(Path(args.of)) if args.of else []
    if args.of and not left:
        raise Failure(f"{args.of} is no run whose phases have left anything")
    for file in left:
        if not (into / file.name).exists():
            shutil.copyfile(file, into / file.name)


def _read_checkpoint(file: Path) -> dict[str, Any]:
    try:
        saved = torch.load(file, map_location="cpu", weights_only=True)
    except Exception:
        others = [other for other in (LAST, BEST) if other != file.name and (file.parent / other).is_file()]
        help = f'{others[0]} is there: `weights="{file.parent / others[0]}"` begins with its weights' if others else ""
        raise Failure(f"{file} is damaged", help) from None
    if not isinstance(saved, dict) or "module" not in (saved.get("parts") or saved):
        raise Failure(f"{file} is no checkpoint of a run")
    return saved
