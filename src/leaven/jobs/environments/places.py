"""Where the files of attempts are: on a drive that this machine sees, or in an object store.

By its files a supervisor gets its task, reports how an attempt ended and is asked to stop. An environment elsewhere
sends an attempt to its place and gets the arguments of the agent that runs it there. What became of the attempt is read
from the place, with whatever the environment itself says.
"""

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from leaven.files.atomic_files import PRIVATE, write_text
from leaven.files.regular import open_regular
from leaven.formats import run_folder
from leaven.formats.run_folder import read_json
from leaven.jobs import supervisor
from leaven.jobs.agent import RUN
from leaven.jobs.attempt_processes import is_held, supervisor_name
from leaven.jobs.environments.environment import GRACE, Check, Position, Status, Task, Unreachable
from leaven.jobs.environments.launching import command_of
from leaven.jobs.object_store import Folder, StoreNotUsable, folder_at
from leaven.jobs.states import Outcome

_SCRATCH = "/tmp/leaven"
_HELLO = b"hello"
_SENT = "sent.json"  # the file that says which run is fetched when an attempt has ended


def place_of(settings: Mapping[str, Any], attempts: Path, python: str) -> "Drive":
    """The place that the settings of an environment name."""
    return (ObjectStore if settings.get("store") else Drive)(settings, attempts, python)


class Drive:
    """The files of attempts on a drive of this machine, or on one that all machines see under the same path."""

    def __init__(self, settings: Mapping[str, Any], attempts: Path, python: str) -> None:
        self._settings = settings
        self._attempts = attempts
        self._python = python
        self._grace = float(settings.get("grace", GRACE))

    def send(self, task: Task) -> list[str]:
        """Put all that an attempt needs there; the arguments of the agent that runs it."""
        self._describe_with_secrets(task, there=task)
        return [str(task.folder)]

    def _describe_with_secrets(self, task: Task, there: Task) -> None:
        """Describe an attempt to an agent, which gets secrets by this file alone."""
        self.describe(task.folder, replace(there, variables={**there.variables, **there.secrets}))

    def describe(self, folder: Path, task: Task, **more: Any) -> None:
        """Write what the supervisor of an attempt gets; `task` has the paths of its machine."""
        settings, limit = self._settings, task.resources.minutes
        content = {
            "attempt": task.attempt,
            "command": command_of(task, self._python),
            "folder": str(settings.get("folder") or task.project),  # where paths in the program start
            "otherwise": str(task.run),  # where there is no such folder
            "environment": {
                "OMP_WAIT_POLICY": "passive",  # threads that wait take no time from other jobs
                **task.variables,
                "OMP_NUM_THREADS": str(max(1, task.resources.cpus // task.resources.processes)),
                "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(
                    math.ceil(self._grace)
                ),  # torchrun kills ranks that take longer to save
                "PYTHONUNBUFFERED": "1",  # the log shows a line when it is printed
            },
            "grace": self._grace,
            "seconds": None if limit is None else 60 * limit,
            "log_limit": int(settings.get("log_limit") or 0),  # bytes that it may print; 0: the supervisor's limit
        }
        _write(folder / supervisor.TASK, content | more)

    def outcome(self, attempt: str) -> Status | None:
        """How an attempt ended, once all that it has written is here; None where its files don't say. Nothing in them
        is believed."""
        folder = self._attempts / attempt
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
        if outcome is not Outcome.SUCCEEDED and killed.get("reason") and not self.is_stopping(attempt):
            outcome, reason = Outcome.FAILED, str(killed["reason"])
        is_code = isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**31
        return Status("ended", outcome, code if is_code else None, reason)

    def has_begun(self, attempt: str) -> bool:
        """Whether its program has begun, or that is not known."""
        folder = self._attempts / attempt
        return (folder / supervisor.BEGUN).exists() or (folder / supervisor.OUTCOME).exists()

    def is_supervised(self, attempt: str) -> bool:
        """Whether the supervisor of an attempt lives on this machine, also if the attempt's folder was removed."""
        lock = self._attempts / attempt / supervisor.LOCK
        return is_held(supervisor_name(attempt)) or supervisor.is_taken(lock)

    def is_alive(self, attempt: str) -> bool:
        """Whether an agent or a program of it is seen to live, whatever the engine says, also without a supervisor."""
        program = self._attempts / attempt / supervisor.PROGRAM_LOCK
        return self.is_supervised(attempt) or supervisor.is_taken(program)

    def stop(self, attempt: str, grace: float) -> None:
        """Let an attempt save and stop; one that has not begun will not begin."""
        if not self.is_stopping(attempt):
            _write(self._attempts / attempt / supervisor.STOP, {"grace": grace})

    def is_stopping(self, attempt: str) -> bool:
        """Whether it was asked to stop."""
        return (self._attempts / attempt / supervisor.STOP).exists()

    def follow(self, attempt: str) -> None:
        """Get the file that says how far an attempt is."""

    def rescue(self, attempt: str) -> None:
        """Get the files that an attempt has saved that will not say any more how it ended."""

    def log(self, attempt: str, start: Position, most: int) -> tuple[bytes, Position]:
        """At most that many bytes of its log, and the position after them; nothing before it has begun.

        A log that was removed, and begun again by its supervisor, is read from its start.
        """
        try:
            with open_regular(self._attempts / attempt / supervisor.LOG) as file:
                about = os.fstat(file.fileno())
                is_same = start.file in (0, about.st_ino) and start.offset <= about.st_size
                file.seek(start.offset if is_same else 0)
                return file.read(most), Position(file.tell(), about.st_ino)
        except FileNotFoundError:
            return b"", start

    def check(self) -> Iterator[Check]:
        """Whether the place can be used."""
        what, fact = f"folder {self._attempts.parent}", "must be on a drive that all machines see; the tiny job tells"
        yield Check(what, True, fact)


class ObjectStore(Drive):
    """Attempts are carried through an object store; each has a folder of its own there, with a copy of its run."""

    def __init__(self, settings: Mapping[str, Any], attempts: Path, python: str) -> None:
        super().__init__(settings, attempts, python)
        self._address = str(settings["store"]).rstrip("/")
        self._scratch = PurePosixPath(str(settings.get("scratch") or _SCRATCH))
        self._opened: Folder | None = None

    def _at(self, attempt: str) -> Folder:
        try:
            self._opened = self._opened or folder_at(self._address)
        except StoreNotUsable as problem:
            raise Unreachable(": ".join(filter(None, (problem.headline, problem.help)))) from None
        return self._opened.folder(attempt)

    def send(self, task: Task) -> list[str]:
        folder, run = self._scratch / task.attempt, self._scratch / task.attempt / RUN
        project = run if task.project == task.run else task.project
        self._describe_with_secrets(task, there=replace(task, run=Path(run), project=Path(project)))
        write_text(task.folder / _SENT, json.dumps({"run": str(task.run), "nodes": task.resources.nodes}))
        store = self._at(task.attempt)
        with _unreachable(self._address):
            store.put_folder(task.run, RUN)
            store.put(task.folder / supervisor.TASK, supervisor.TASK)
        return [str(folder), "--store", f"{self._address}/{task.attempt}", "--run", str(run)]

    def outcome(self, attempt: str) -> Status | None:
        folder, store = self._attempts / attempt, self._at(attempt)
        if (known := super().outcome(attempt)) is not None:
            return known
        with _unreachable(self._address):
            if not store.has(supervisor.OUTCOME):
                return None
            self._fetch(attempt)
            for node in range(1, read_json(folder / _SENT).get("nodes", 1)):
                report = f"{supervisor.NODE_FOLDER.format(node)}/{supervisor.TOLD}"
                with contextlib.suppress(FileNotFoundError):
                    store.get(report, folder / report)
            store.get(supervisor.OUTCOME, folder / supervisor.OUTCOME)
            store.remove(RUN)
        return super().outcome(attempt)

    def _fetch(self, attempt: str) -> None:
        """Get the run and the log as they are in the store."""
        folder, store = self._attempts / attempt, self._at(attempt)
        store.get_folder(RUN, Path(read_json(folder / _SENT)["run"]))
        with contextlib.suppress(FileNotFoundError):
            store.get(supervisor.LOG, folder / supervisor.LOG)

    def rescue(self, attempt: str) -> None:
        with _unreachable(self._address):
            self._fetch(attempt)

    def has_begun(self, attempt: str) -> bool:
        return True

    def is_alive(self, attempt: str) -> bool:
        return False

    def stop(self, attempt: str, grace: float) -> None:
        with _unreachable(self._address):
            if not self.is_stopping(attempt):
                self._at(attempt).write(supervisor.STOP, json.dumps({"grace": grace}).encode())
        super().stop(attempt, grace)

    def follow(self, attempt: str) -> None:
        run = read_json(self._attempts / attempt / _SENT).get("run")
        with contextlib.suppress(FileNotFoundError), _unreachable(self._address):
            if run:
                self._at(attempt).get(f"{RUN}/{run_folder.METRICS}", Path(run) / run_folder.METRICS)

    def log(self, attempt: str, start: Position, most: int) -> tuple[bytes, Position]:
        """Copies of one log are different files here, so that only offsets count."""
        if (self._attempts / attempt / supervisor.OUTCOME).exists():
            text, end = super().log(attempt, start, most)
            return text, Position(end.offset)
        with _unreachable(self._address):
            text, offset = self._at(attempt).read(supervisor.LOG, start.offset, most)
            return text, Position(offset)

    def check(self) -> Iterator[Check]:
        name, what = "check.txt", f"store {self._address}"
        try:
            store = self._at("check")
            store.write(name, _HELLO)
            is_right = store.read(name, 0, len(_HELLO))[0] == _HELLO
            store.remove(name)
        except (Unreachable, OSError) as problem:
            yield Check(what, False, str(problem), "set `store` of the environment, and what gives access to it")
        else:
            yield Check(what, is_right, "can be written and read")


@contextlib.contextmanager
def _unreachable(address: str) -> Iterator[None]:
    """An object store that fails does not answer; a missing file is reported as such."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise Unreachable(f"{address}: {problem}") from None


def _write(file: Path, content: dict[str, Any]) -> None:
    """Write a file of an attempt, whose folder may not be there yet, or have been removed."""
    file.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    write_text(file, json.dumps(content, indent=1), PRIVATE)
