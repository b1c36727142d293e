"""What the lock of a run's folder records: what the run runs with, its data, and every time that it is started."""

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from leaven.files.atomic_files import remove_unfinished
from leaven.formats.installed_versions import installed_versions
from leaven.formats.run_folder import COMMAND
from leaven.formats.sweep_folder import DIVERGED
from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Failure
from leaven.runtime.run import arguments, progress
from leaven.runtime.run.folder import RunFolder

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def record_start(
    folder: RunFolder,
    args: argparse.Namespace,
    fabric: "Fabric",
    saved: Mapping[str, Any] | None,
    *,
    seed: int,
    threads: int | None,
) -> str:
    """Note what the run runs with; one that is resumed runs with what is there.

    Returns a warning where that is another number of processes than the run has had so far; empty otherwise.
    """
    lock = folder.lock
    is_new, finishes, now = "threads" not in lock, args.finish is not None, fabric.world_size
    before = lock.get("processes", now)
    is_other = not is_new and not finishes and before != now
    if not is_new and not is_other:  # sums of floats depend on the number of threads
        threads = lock["threads"]
    if threads is not None:
        torch.set_num_threads(threads)
    fabric.barrier()  # nobody reads the lock while it is written
    if folder.writes:
        remove_unfinished(folder.path, (".ckpt", ".bundle"))
    started_by = os.environ.pop(COMMAND, "") or shlex.join(["python", *sys.argv])  # what was typed, or called in Python
    facts: dict[str, Any] = {"commands": [*lock.get("commands", ()), started_by]}
    if is_new:
        facts = {**_surroundings(), "seed": seed, "processes": now, "arguments": arguments.kept(args), **facts}
    if is_other:
        until = {name: saved[name] if saved else 0 for name in ("phase", "epoch", "batch")}
        facts |= {
            "processes": now,
            "threads": torch.get_num_threads(),
            "arguments": {**lock["arguments"], "devices": args.devices},
            "earlier_processes": [*lock.get("earlier_processes", ()), {"processes": before, "until": until}],
        }
    if not finishes:
        facts |= {"finished": False} | ({DIVERGED: ""} if DIVERGED in lock else {})  # it may not do so again
    if args.more_epochs or is_new:
        facts["trained"] = False
    folder.note(**facts)
    if not is_other or saved is None:
        return ""
    return (
        f"with {now} process{'es' * (now > 1)} instead of {before}: sums are added in another order,"
        " so the result is close, but not bit-identical"
    )


def _surroundings() -> dict[str, Any]:
    """Versions, hardware, threads, and the folder that paths start from."""
    return {
        "python": platform.python_version(),
        "packages": installed_versions(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
        "started_in": os.getcwd(),
    }


def record_data(folder: RunFolder, data: Data, fabric: "Fabric") -> None:
    """Note the data of the run, which is resumed with the same."""
    then, now = folder.lock.get("data"), data.fingerprint()
    fabric.barrier()
    if then is None:
        folder.note(data=now)
    elif then != now:
        raise Failure(progress.data_difference(then, now), "restore the data, or start a new run")
