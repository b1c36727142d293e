"""Where the files of attempts are that run elsewhere: on a drive that all machines see, or in an object store.

An environment sends an attempt to its place and gets the arguments of the agent that runs it there. What became of the
attempt is read from the place, with whatever the environment itself says.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from leaven.files.atomic_files import write_text
from leaven.formats import run_folder
from leaven.jobs import supervisor
from leaven.jobs.agent import RUN
from leaven.jobs.environments import supervising
from leaven.jobs.environments.environment import GRACE, Check, Status, Task, Unreachable
from leaven.jobs.environments.logs import Position, read_log
from leaven.jobs.object_store import Folder, StoreNotUsable, folder_at

_SCRATCH = "/tmp/leaven"
_HELLO = b"hello"
_SENT = "sent.json"  # the file that says which run is fetched when an attempt has ended


def place_of(settings: Mapping[str, Any], attempts: Path, python: str) -> "SharedDrive":
    """The place that the settings of an environment name."""
    return (ObjectStore if settings.get("store") else SharedDrive)(settings, attempts, python)


class SharedDrive:
    """The files of attempts on a drive that all machines see under the same path."""

    def __init__(self, settings: Mapping[str, Any], attempts: Path, python: str) -> None:
        self._settings = settings
        self._attempts = attempts
        self._python = python

    def send(self, task: Task) -> list[str]:
        """Put all that an attempt needs there; the arguments of the agent that runs it."""
        self._describe(task, there=task)
        return [str(task.folder)]

    def _describe(self, task: Task, there: Task) -> None:
        """Write what the supervisor of an attempt gets; `there` is the task with the paths of the machine."""
        folder = str(self._settings.get("folder") or (there.run if task.project == task.run else task.project))
        given = replace(there, variables={**there.variables, **there.secrets})  # the only way to the agent is this file
        grace = float(self._settings.get("grace", GRACE))
        found = supervising.described(given, python=self._python, folder=folder, grace=grace)
        log_limit = int(self._settings.get("log_limit") or 0)  # bytes that it may print; 0: the supervisor's limit
        supervising.write(task.folder / supervisor.TASK, {**found, "log_limit": log_limit})

    def outcome(self, attempt: str) -> Status | None:
        """The end of an attempt, once all that it has written is here; None while the place does not say."""
        return supervising.outcome_in(self._attempts / attempt)

    def has_begun(self, attempt: str) -> bool:
        """Whether its program has begun, or that is not known."""
        folder = self._attempts / attempt
        return (folder / supervisor.BEGUN).exists() or (folder / supervisor.OUTCOME).exists()

    def is_alive(self, attempt: str) -> bool:
        """Whether an agent or a program of it is seen to live, whatever the engine says."""
        return supervising.is_alive(self._attempts / attempt, attempt)

    def stop(self, attempt: str, grace: float) -> None:
        """Let an attempt save and stop; one that has not begun will not begin."""
        supervising.ask_to_stop(self._attempts / attempt, grace)

    def is_stopping(self, attempt: str) -> bool:
        """Whether it was asked to stop."""
        return supervising.is_asked_to_stop(self._attempts / attempt)

    def follow(self, attempt: str) -> None:
        """Get the file that says how far an attempt is."""

    def rescue(self, attempt: str) -> None:
        """Get the files that an attempt has saved that will not say any more how it ended."""

    def log(self, attempt: str, start: Position, most: int) -> tuple[bytes, Position]:
        """At most that many bytes of its log, and the position after them."""
        return read_log(self._attempts / attempt, start, most)

    def check(self) -> Iterator[Check]:
        """Whether the place can be used."""
        what, fact = f"folder {self._attempts.parent}", "must be on a drive that all machines see; the tiny job tells"
        yield Check(what, True, fact)


class ObjectStore(SharedDrive):
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
        self._describe(task, there=replace(task, run=Path(run)))
        write_text(task.folder / _SENT, json.dumps({"run": str(task.run), "nodes": task.resources.nodes}))
        store = self._at(task.attempt)
        with _unreachable(self._address):
            store.put_folder(task.run, RUN)
            store.put(task.folder / supervisor.TASK, supervisor.TASK)
        return [str(folder), "--store", f"{self._address}/{task.attempt}", "--run", str(run)]

    def outcome(self, attempt: str) -> Status | None:
        folder, store = self._attempts / attempt, self._at(attempt)
        if (known := supervising.outcome_in(folder)) is not None:
            return known
        with _unreachable(self._address):
            if not store.has(supervisor.OUTCOME):
                return None
            self._fetch(attempt)
            for node in range(1, run_folder.read_json(folder / _SENT).get("nodes", 1)):
                report = f"{supervisor.NODE_FOLDER.format(node)}/{supervisor.TOLD}"
                with contextlib.suppress(FileNotFoundError):
                    store.get(report, folder / report)
            store.get(supervisor.OUTCOME, folder / supervisor.OUTCOME)
            store.remove(RUN)
        return supervising.outcome_in(folder)

    def _fetch(self, attempt: str) -> None:
        """Get the run and the log as they are in the store."""
        folder, store = self._attempts / attempt, self._at(attempt)
        store.get_folder(RUN, Path(run_folder.read_json(folder / _SENT)["run"]))
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
        folder = self._attempts / attempt
        with _unreachable(self._address):
            if not supervising.is_asked_to_stop(folder):
                self._at(attempt).write(supervisor.STOP, json.dumps({"grace": grace}).encode())
        supervising.ask_to_stop(folder, grace)

    def follow(self, attempt: str) -> None:
        run = run_folder.read_json(self._attempts / attempt / _SENT).get("run")
        with contextlib.suppress(FileNotFoundError), _unreachable(self._address):
            if run:
                self._at(attempt).get(f"{RUN}/{run_folder.METRICS}", Path(run) / run_folder.METRICS)

    def log(self, attempt: str, start: Position, most: int) -> tuple[bytes, Position]:
        """Copies of one log are different files here, so that only offsets count."""
        if (self._attempts / attempt / supervisor.OUTCOME).exists():
            text, end = read_log(self._attempts / attempt, start, most)
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
