"""What a supervisor is given, what it says of an attempt, and how it is asked to stop: all by files in a folder.

Wherever a supervisor runs, its attempt is described, judged and stopped in the same way.
"""

import json
from pathlib import Path
from typing import Any

from leaven.formats.atomic_files import write_text
from leaven.formats.run_folder import read_json
from leaven.jobs import supervisor
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
            "PYTHONUNBUFFERED": "1",  # the log shows a line when it is printed
        },
        "grace": grace,
        "seconds": None if limit is None else 60 * limit,
    }


def outcome_in(folder: Path) -> Status | None:
    """How an attempt ended, by the files in its folder; None where they don't say."""
    found = read_json(folder / supervisor.OUTCOME)
    if not found:
        return None
    return Status("ended", Outcome(found["outcome"]), found.get("exit"), str(found.get("reason", "")))


def ask_to_stop(folder: Path, grace: float) -> bool:
    """Ask an attempt to save and stop; whether it was not asked before."""
    if not folder.is_dir() or is_asked_to_stop(folder):
        return False
    write_text(folder / supervisor.STOP, json.dumps({"grace": grace}))
    return True


def is_asked_to_stop(folder: Path) -> bool:
    return (folder / supervisor.STOP).exists()
