"""The folder of a run: files that appear whole or not at all, and the lock that says what a run needs to be repeated.

runs/dogs/2026-11-15_20-21-03/
    program.py  metrics.csv  lock.json  last.ckpt  best.ckpt  model.bundle
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from leaven.runtime.failures import Failure

PACKAGES = ("torch", "torchvision", "timm", "lightning", "torchmetrics", "numpy", "pillow", "leaven")


def new_folder(output: str) -> Path:
    """A folder of its own for a run, named by the time."""
    stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
    for attempt in range(100):
        folder = Path(output) / (stamp if attempt == 0 else f"{stamp}_{attempt + 1}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as problem:
            raise Failure(
                f"can't make the folder {folder}: {problem.strerror}", "choose another with `--output`"
            ) from None
        return folder
    raise Failure(f"can't find a free name in {output}")


def write_whole(file: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside, then put it in its place: a reader sees the old one or the new one, whole."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        write(beside)
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        beside.replace(file)
    except OSError as problem:
        raise Failure(
            f"can't write {file.name}: {problem.strerror or problem}",
            f"what was saved in {file.parent} before is intact",
        ) from None
    finally:
        beside.unlink(missing_ok=True)


def write_text(file: Path, text: str) -> None:
    write_whole(file, lambda beside: beside.write_text(text, encoding="utf-8"))


def write_table(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as csv, with every column that any of them has."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [",".join(columns)]
    lines += [",".join(_cell(row.get(column)) for column in columns) for row in rows]
    write_text(file, "\n".join(lines) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.8g}" if isinstance(value, float) else str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n') else text


def write_lock(file: Path, **more: Any) -> None:
    """What the run ran with: versions, hardware, threads, seed."""
    lock = {
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
        "command": sys.argv,
        **more,
    }
    write_text(file, json.dumps(lock, indent=2) + "\n")


def read_lock(file: Path) -> dict[str, Any]:
    """The lock of a run; empty where there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
