"""The folder of a run: opening it, and what is written into it: tables, checkpoints, the lock."""

import argparse
import csv
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from leaven.files.atomic_files import write_atomically
from leaven.formats import run_folder
from leaven.formats.installed_versions import installed_versions
from leaven.runtime.failures import Failure


def new_folder(output: str, *, is_quick: bool) -> Path:
    """A new folder for a run, named by the time."""
    try:
        return run_folder.new_folder(Path(output), is_quick=is_quick)
    except OSError as problem:
        raise Failure(f"can't create a folder in {output}: {problem.strerror}", "choose another: `--output`") from None


def open_folder(args: argparse.Namespace) -> Path:
    """The folder of the run: that of a resumed one, or a new one with a copy of the program in it."""
    if args.resume:
        found = Path(args.resume)
    else:
        found = new_folder(args.output, is_quick=args.quick)
        program = Path(sys.argv[0])
        if program.suffix == ".py" and program.is_file():
            shutil.copyfile(program, found / run_folder.PROGRAM)
    _copy_phases(args, found)
    return found


def _copy_phases(args: argparse.Namespace, into: Path) -> None:
    """Copy what the phases of an earlier run left, for a run that starts with a later one."""
    if not args.of:
        return
    left = run_folder.leaving_files(Path(args.of))
    if not left:
        raise Failure(f"{args.of} is not a run with finished phases")
    if args.from_phase and (changed := _changed_argument(args)):
        raise Failure(changed, f"the phases before {args.from_phase} depend on it: run them again")
    for file in left:
        if not (into / file.name).exists():
            shutil.copyfile(file, into / file.name)


def _changed_argument(args: argparse.Namespace) -> str | None:
    from leaven.plan.recorded_plan import changed_argument  # few runs begin with a later phase

    return changed_argument(Path(args.of), args.from_phase, vars(args))


def write_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically: whatever goes wrong, what was there before stays."""
    try:
        write_atomically(file, write)
    except (OSError, RuntimeError) as problem:  # torch's writer raises the latter when the disk is full
        reason = getattr(problem, "strerror", None) or "the disk is full, or the file is too large"
        help = f"what was saved in {file.parent} before is intact"
        raise Failure(f"can't write {file.name}: {reason}", help) from None


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


def write_table(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as csv, with every column that any of them has."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = StringIO()
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: f"{v:.8g}" if isinstance(v, float) else v for name, v in row.items()} for row in rows)
    write_text(file, table.getvalue())


def surroundings() -> dict[str, Any]:
    """What the run runs with, for its lock: versions, hardware, threads, and the folder that paths start from."""
    return {
        "python": platform.python_version(),
        "packages": installed_versions(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
        "started_in": os.getcwd(),
    }


def started_by() -> str:
    """The command that started the program: what was typed, or called in Python."""
    return os.environ.pop(run_folder.COMMAND, "") or shlex.join(["python", *sys.argv])
