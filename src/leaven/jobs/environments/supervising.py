"""The files by which a supervisor gets its task, reports how an attempt ended and is asked to stop, wherever it is."""

import json
import math
import os
from pathlib import Path
from typing import Any

from leaven.files.atomic_files import PRIVATE, write_text
from leaven.formats.run_folder import read_json
from leaven.jobs import supervisor
from leaven.jobs.attempt_processes import is_held, supervisor_name
from leaven.jobs.environments.environment import Status, Task
from leaven.jobs.environments.launching import command_of
from leaven.jobs.states import Outcome


def described(task: Task, *, python: str, folder: str, grace: float) -> dict[str, Any]:
    """An attempt as its supervisor gets it; `folder` is where paths in the program start."""
    limit = task.resources.minutes
    return {
        "attempt": task.attempt,
        "command": command_of(task, python),
        "folder": folder,
        "otherwise": str(task.run),  # where there is no such folder
        "environment": {
            "OMP_WAIT_POLICY": "passive",  # threads that wait take no time from other jobs
            **task.variables,
            "OMP_NUM_THREADS": str(max(1, task.resources.cpus // task.resources.processes)),
            "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(math.ceil(grace)),  # torchrun kills ranks that take longer to save
            "PYTHONUNBUFFERED": "1",  # the log shows a line when it is printed
        },
        "grace": grace,
        "seconds": None if limit is None else 60 * limit,
    }


def write(file: Path, content: dict[str, Any]) -> None:
    """Write a file of an attempt, whose folder may not be there yet, or have been removed."""
    file.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    write_text(file, json.dumps(content, indent=1), PRIVATE)


def outcome_in(folder: Path) -> Status | None:
    """How an attempt ended, by the files in its folder; None where they don't say. Nothing in them is believed."""
    file = folder / supervisor.OUTCOME
    if not os.path.lexists(file):
        return None
    content = read_json(file)
    try:
        outcome = Outcome(content.get("outcome", ""))
    except ValueError:
        return Status("ended", Outcome.LOST, reason=f"how it ended can't be read: {supervisor.OUTCOME} is damaged")
    code, reason = content.get("exit"), str(content.get("reason", ""))
    # the first node only knows that it was left alone: another one reports a rank that was killed there
    files = sorted(folder.glob(f"{supervisor.NODE_FOLDER.format('*')}/{supervisor.TOLD}"))
    killed = next((report for file in files if (report := read_json(file)).get("is_killed") is True), {})
    if outcome is not Outcome.SUCCEEDED and killed.get("reason") and not is_asked_to_stop(folder):
        outcome, reason = Outcome.FAILED, str(killed["reason"])
    is_code = isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**31
    return Status("ended", outcome, code if is_code else None, reason)


def is_supervised(folder: Path, attempt: str) -> bool:
    """Whether the supervisor of an attempt lives on this machine, also if the attempt's folder was removed."""
    return is_held(supervisor_name(attempt)) or supervisor.is_taken(folder / supervisor.LOCK)


def is_alive(folder: Path, attempt: str) -> bool:
    """Whether anything of an attempt lives on a machine that sees its folder, also without a supervisor."""
    return is_supervised(folder, attempt) or supervisor.is_taken(folder / supervisor.PROGRAM_LOCK)


def ask_to_stop(folder: Path, grace: float) -> bool:
    """Ask an attempt to save and stop; whether it was not asked before."""
    if is_asked_to_stop(folder):
        return False
    write(folder / supervisor.STOP, {"grace": grace})
    return True


def is_asked_to_stop(folder: Path) -> bool:
    return (folder / supervisor.STOP).exists()
