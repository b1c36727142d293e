"""The folder of a run, as the run itself uses it: everything that it has on disk.

What the compiler, the lab and jobs read of it without torch is in `formats/run_folder.py`.
"""

import argparse
import csv
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leaven.files.atomic_files import write_atomically, write_bytes
from leaven.formats import run_folder
from leaven.formats.run_in_progress import hold
from leaven.runtime.failures import Failure
from leaven.terminal.commands import to_peek

Rows = Sequence[Mapping[str, Any]]  # of the metrics, one an epoch


@dataclass(frozen=True)
class SavedWeights:
    """Weights in a file of a run; None means those that the phase is resumed with, or left. Phases count from 0."""

    phase: int
    file: str
    weights: Mapping[str, Any] | None = None
    epoch: int | None = None
    caveats: tuple[str, ...] = ()  # about a model that learned nothing
    samples: Mapping[str, Any] = field(default_factory=dict)  # of validation, as they were measured with the weights


class RunFolder:
    """The lock, the metrics, the checkpoints and the figures of a run.

    Only the process that `writes` changes anything. One that `waits`, as each of many trials does, has the metrics and
    the best weights in memory until its next checkpoint. `named` is the folder as it is shown.
    """

    def __init__(self, named: Path, *, writes: bool, waits: bool) -> None:
        self.named = named
        self.path = named.absolute()  # user code may change the working directory
        self.writes = writes
        self.waits = waits
        self._best: Mapping[str, Any] | None = None  # what is not yet written

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    @property
    def lock(self) -> dict[str, Any]:
        """What the run is run with."""
        return run_folder.read_json(self.path / run_folder.LOCK)

    def note(self, **facts: Any) -> None:
        """Note something in the lock."""
        if self.writes:
            write_json(self.path / run_folder.LOCK, {**self.lock, **facts})

    # -- checkpoints

    def read(self, name: str) -> dict[str, Any] | None:
        """A checkpoint; None where there is none of that name."""
        return read_checkpoint(self.path / name) if self.has(name) else None

    def write(self, name: str, state: Mapping[str, Any]) -> None:
        """Write tensors into a file."""
        if self.writes:
            write_whole(self.path / name, lambda beside: torch.save(dict(state), beside))

    def write_last(self, state: Mapping[str, Any], rows: Rows) -> None:
        """Write the last checkpoint, after what has waited for it."""
        if self.waits and self.writes:
            write_table(self.path / run_folder.METRICS, rows)
            best, self._best = self._best, None
            if best is not None:
                self.write(run_folder.BEST, best)
        self.write(run_folder.LAST, state)

    def write_best(self, weights: Mapping[str, Any], unchanging: Iterable[Tensor]) -> None:
        """Write the best weights so far; those that are `unchanging` need no copy where they wait in memory."""
        if not self.waits:
            self.write(run_folder.BEST, weights)
            return
        places = {weight.data_ptr() for weight in unchanging}
        kept = {name: each if each.data_ptr() in places else each.clone() for name, each in weights["model"].items()}
        self._best = {**weights, "model": kept}

    def weights(self, name: str) -> SavedWeights:
        """The weights in a checkpoint."""
        found = self.read(name)
        if found is None:
            raise Failure(f"{self.path / name} does not exist")
        if "state" in found:
            return SavedWeights(found["phase"], name)
        if (left := run_folder.phase_left_in(name)) is not None:
            return SavedWeights(left, name)
        if "phase" not in found:
            raise Failure(f"{self.path / name} is not a checkpoint of a run")
        caveats = tuple(found.get("caveats", ()))
        return SavedWeights(found["phase"], name, found["model"], found["epoch"], caveats, found.get("samples", {}))

    def best_of(self, phase: int) -> SavedWeights | None:
        """The best weights, if they are of that phase."""
        best = self.weights(run_folder.BEST) if self.has(run_folder.BEST) else None
        return best if best is not None and best.phase == phase else None

    # -- lines that are followed while they are written

    def append(self, name: str, text: str) -> int:
        """Append whole lines to a file; its size after that."""
        try:
            with open(self.path / name, "ab") as file:
                file.write(text.encode())
                return file.tell()
        except OSError as problem:
            raise _unwritable(name, problem, self.path) from None

    def cut(self, name: str, size: int) -> int:
        """Cut a file off after some bytes, where it has more; the size that it then has."""
        try:
            with open(self.path / name, "ab") as file:
                if file.tell() > size:
                    file.truncate(size)
                return min(file.tell(), size)
        except OSError as problem:
            raise _unwritable(name, problem, self.path) from None

    # -- scores and figures

    def write_metrics(self, rows: Rows) -> None:
        if self.writes and not self.waits:
            write_table(self.path / run_folder.METRICS, rows)

    def write_scores(self, scores: Mapping[str, float]) -> None:
        if self.writes:
            write_text(self.path / run_folder.SCORES, json.dumps(scores, indent=2) + "\n")

    def write_figure(self, name: str, figure: bytes) -> Path:
        """Write a figure; the file as it is shown."""
        write_bytes(self.path / name, figure)
        return self.named / name


def open_folder(args: argparse.Namespace, *, owner: object) -> Path:
    """The folder of the run: that of a resumed one, or a new one with a copy of the program and its plan in it.

    No other process may run it as long as `owner` lives; a snapshot leaves it as it is.
    """
    found = Path(args.resume) if args.resume else _new_folder(args)
    _copy_phases(args, found)
    if args.snapshot is None and not hold(found, owner):
        raise Failure(f"{found} is still running", f"stop it first, or save its best epoch so far: {to_peek(found)}")
    return found


def _new_folder(args: argparse.Namespace) -> Path:
    """A new folder, named by the time, with the program, and with its plan if the program was written from it."""
    from leaven.plan.recorded_plan import plan_of_program  # programs of `leaven run` are in their folder already

    try:
        found = run_folder.new_folder(Path(args.output), is_quick=args.quick)
    except OSError as problem:
        help = "choose another: `--output`"
        raise Failure(f"can't create a folder in {args.output}: {problem.strerror}", help) from None
    program = Path(sys.argv[0])
    if program.suffix == ".py" and program.is_file():
        shutil.copyfile(program, found / run_folder.PROGRAM)
        if plan_of_program(program) is not None:
            shutil.copyfile(program.with_name(run_folder.PLAN), found / run_folder.PLAN)
    return found


def _copy_phases(args: argparse.Namespace, into: Path) -> None:
    """Copy what the phases of an earlier run left, for a run that starts with a later one."""
    if not args.of:
        return
    from leaven.plan.recorded_plan import changed_argument  # few runs begin with a later phase

    left = run_folder.leaving_files(Path(args.of))
    if not left:
        raise Failure(f"{args.of} is not a run with finished phases")
    if args.from_phase and (changed := changed_argument(Path(args.of), args.from_phase, vars(args))):
        raise Failure(changed, f"the phases before {args.from_phase} depend on it: run them again")
    for file in left:
        if not (into / file.name).exists():
            shutil.copyfile(file, into / file.name)


def write_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically: whatever goes wrong, what was there before stays."""
    try:
        write_atomically(file, write)
    except (OSError, RuntimeError) as problem:  # torch's writer raises the latter when the disk is full
        raise _unwritable(file.name, problem, file.parent) from None


def _unwritable(name: str, problem: Exception, folder: Path) -> Failure:
    reason = getattr(problem, "strerror", None) or "the disk is full, or the file is too large"
    return Failure(f"can't write {name}: {reason}", f"what was saved in {folder} before is intact")


def read_checkpoint(file: Path) -> dict[str, Any]:
    """What a run has saved in a file."""
    try:
        saved = torch.load(file, map_location="cpu", weights_only=True)
    except Exception:
        checkpoints = (run_folder.LAST, run_folder.BEST)
        others = [other for other in checkpoints if other != file.name and (file.parent / other).is_file()]
        help = f'{others[0]} is there: `weights="{file.parent / others[0]}"` starts from its weights' if others else ""
        raise Failure(f"{file} is damaged", help) from None
    if not isinstance(saved, dict) or "model" not in (saved.get("state") or saved):
        raise Failure(f"{file} is not a checkpoint of a run")
    return saved


def write_text(file: Path, text: str) -> None:
    write_whole(file, lambda beside: beside.write_text(text, encoding="utf-8"))


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    write_text(file, json.dumps(content, indent=2, default=str) + "\n")


def write_table(file: Path, rows: Rows, first: Sequence[str] = ()) -> None:
    """Rows as csv, with the columns that are `first`, and every other one that any of them has."""
    columns = list(dict.fromkeys([*first, *(column for row in rows for column in row)]))
    table = StringIO()
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: f"{v:.8g}" if isinstance(v, float) else v for name, v in row.items()} for row in rows)
    write_text(file, table.getvalue())
