"""What a run writes into its folder: tables, checkpoints, and the lock that says what it runs with."""

import csv
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from leaven.formats import run_folder
from leaven.formats.atomic_files import write_atomically
from leaven.runtime.failures import Failure

PACKAGES = ("torch", "torchvision", "timm", "lightning", "torchmetrics", "numpy", "pillow", "leaven")


def new_folder(output: str, *, is_quick: bool) -> Path:
    """A new folder for a run, named by the time."""
    try:
        return run_folder.new_folder(Path(output), is_quick=is_quick)
    except OSError as problem:
        raise Failure(f"can't create a folder in {output}: {problem.strerror}", "choose another: `--output`") from None


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
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
        "started_in": os.getcwd(),
    }


def typed() -> str:
    """The command that started the program: what was typed, or called in Python."""
    return os.environ.pop(run_folder.COMMAND, "") or shlex.join(["python", *sys.argv])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
