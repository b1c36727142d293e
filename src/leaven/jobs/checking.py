"""Whether an environment can be used: what it needs, and a tiny job from end to end."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from leaven.formats import run_folder
from leaven.formats.installed_versions import leaven_version
from leaven.jobs.environments.environment import PIECE, Check, Environment, Position, Refused, Status, Task, Unreachable
from leaven.jobs.manifest import Manifest
from leaven.jobs.package import make_package, unpack
from leaven.jobs.requests import environment_of
from leaven.jobs.resources import Resources
from leaven.jobs.settings import Settings
from leaven.jobs.states import Entry, Outcome
from leaven.terminal import status_line

_GREETING = "hello from the tiny job"
_PROGRAM = f'print("{_GREETING}")\n'
_SECONDS = 120.0  # for the tiny job
_IN_A_QUEUE = 900.0  # where others may come first, or a machine is rented


def checks(settings: Settings, name: str) -> Iterator[Check]:
    """The checks of an environment, and last a tiny job in it if all of them succeed."""
    environment = environment_of(settings, name)
    is_right = True
    try:
        for check in environment.check():
            yield check
            is_right &= check.is_right
        if is_right:
            settings.attempts.mkdir(parents=True, exist_ok=True)
            yield _tiny_job(environment, settings.attempts)
    except Unreachable as problem:
        yield Check(name, False, f"does not answer: {problem}")


def _tiny_job(environment: Environment, attempts: Path) -> Check:
    """Submit a program of one line, and wait for its end and its log."""
    attempt = f"check-{time.time_ns():x}"
    with tempfile.TemporaryDirectory(prefix="check-", dir=attempts) as place:
        run = Path(place, "run")
        program = {run_folder.PROGRAM: _PROGRAM.encode()}
        unpack(make_package(Manifest("check", leaven_version(), Entry.PLAIN), program), run)
        task = Task(attempt, attempts / attempt, run, run, Entry.PLAIN, (), Resources(minutes=_SECONDS / 60))
        try:
            return _tried(environment, task)
        except Refused as problem:
            return Check("a tiny job", False, str(problem))
        finally:
            shutil.rmtree(task.folder, ignore_errors=True)


def _tried(environment: Environment, task: Task) -> Check:
    """Whether a task runs, and what it prints can be read. The engine may print lines of its own."""
    began = time.monotonic()
    until = began + (_IN_A_QUEUE if environment.capacity() is None else _SECONDS)
    native = environment.submit(task)
    with status_line.doing("running a tiny job…"):
        status = _wait(environment, task.attempt, native, until)
    log = environment.logs(task.attempt, native, Position(), PIECE)[0].decode(errors="replace").strip()
    took = f"{time.monotonic() - began:.1f} s"
    if status.outcome is Outcome.SUCCEEDED and _GREETING in log.splitlines():
        return Check("a tiny job", True, f"ran in {took}")
    return Check("a tiny job", False, status.reason or f"{status.phase} after {took}", log)


def _wait(environment: Environment, attempt: str, native: str, until: float) -> Status:
    while True:
        status = environment.poll({attempt: native})[attempt]
        if status.phase == "ended":
            return status
        if time.monotonic() > until:
            environment.cancel(attempt, native, 1.0)
            return status
        time.sleep(0.1)
