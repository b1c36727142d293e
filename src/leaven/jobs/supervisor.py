"""Supervises one attempt of a job on this machine: starts its program, stops it when asked, and writes how it ended.

    attempts/17-1-a3f9c2/
        task.json         what to run
        supervisor.lock   held by the supervisor as long as it lives, for machines that see the folder
        program.lock      the same of the program and what it starts: a supervisor may be killed and not they
        begun.json        written before the program is started: an attempt is begun at most once
        log               what the program printed
        stop.json         written by whoever wants the attempt to end
        told.json         what the program itself says of how it ended
        outcome.json      how the attempt ended

This is run by a Python without site packages, so that a supervisor costs 10 MB and starts in milliseconds; therefore it
uses only the standard library, as do the files that are part of it: `attempt_processes.py`, `program_log.py`,
`limits.py` and `control_groups.py`. A supervisor needs no coordinator, and the program ends with its supervisor.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import select
import signal
import subprocess
import time

from leaven.jobs import attempt_processes as processes
from leaven.jobs.limits import Limits
from leaven.jobs.program_log import LIMIT, ProgramLog, make_again

TYPE_CHECKING = False  # `typing` takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TASK = "task.json"
LOCK = "supervisor.lock"
PROGRAM_LOCK = "program.lock"
BEGUN = "begun.json"
LOG = "log"
STOP = "stop.json"
TOLD = "told.json"
OUTCOME = "outcome.json"
NODE_FOLDER = "node-{}"  # the folder of each node but the first, in that of the attempt

TELL = "LEAVEN_OUTCOME"  # the environment variable with the file to which a program writes how it ended
PRIVATE = ("LEAVEN_TOKEN", "LEAVEN_JOBS_STORE")  # environment variables that programs don't get

PATIENCE = 3600.0  # seconds for which something that fails is tried again
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_LOOK = 0.25  # seconds between two looks at whether a stop is wanted
_CHUNK = 65_536  # bytes that are read at once of what is printed
_DRAINING = 1.0  # seconds for what was printed last
_LARGEST_FILE = 1_000_000  # bytes that are read of what others write
_LOCK_TRIES = 40
_STOPPED = (-signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT)
_REPORTED = ("succeeded", "stopped", "failed", "refused")  # outcomes that programs report


def main(folder: str) -> None:
    """Supervise the attempt in a folder."""
    # A parent that ignores this signal would let every program end with 0.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with open(os.path.join(folder, TASK), encoding="utf-8") as file:
        task = json.load(file)
    locks = take_attempt(folder, task["attempt"])
    if locks is None:
        return  # another one supervises it, or did
    outcome = Supervisor(folder, task).run()
    write_until_done(os.path.join(folder, OUTCOME), outcome)
    wake(task.get("wake", ""))


def take_attempt(folder: str, attempt: str) -> object | None:
    """The locks of the one supervisor of an attempt, to be kept until its end; None if it was ever begun."""
    name = processes.hold(processes.supervisor_name(attempt))
    if name is None or processes.is_held(processes.program_name(attempt)):
        return None
    lock = _open_lock(folder, LOCK)
    if not take(lock, _LOCK_TRIES) or os.path.exists(os.path.join(folder, BEGUN)):
        return None
    of_program = _open_lock(folder, PROGRAM_LOCK)
    is_free = take(of_program, _LOCK_TRIES)
    os.close(of_program)
    return (name, lock) if is_free else None


def _open_lock(folder: str, name: str) -> int:
    return os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT, 0o600)


class Supervisor:
    """One attempt: its folder, its task, and its program."""

    def __init__(self, folder: str, task: dict[str, Any]) -> None:
        self.folder = folder
        self.task = task
        self.stop: dict[str, Any] | None = None  # what was asked: {"grace": seconds, "reason": text, "timed_out": True}
        self.began = time.monotonic()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop_on_signal)

    def run(self) -> dict[str, Any]:
        """Run the program to its end; how it ended."""
        os.umask(0o077)
        if self._is_stop_wanted():
            return self._outcome("stopped", None, "stopped before it began")
        processes.adopt_orphans()
        _write(self._file(BEGUN), {"supervisor": os.getpid(), "at": time.time()})
        log = ProgramLog(self._file(LOG), self.task.get("log_limit") or LIMIT)
        limits = Limits(self.task["attempt"], self.task.get("cores") or 0, self.task.get("memory") or 0)
        printed, printing = os.pipe()
        os.set_blocking(printed, False)
        try:
            program = self._start(printing, limits)
        except OSError as problem:
            where = problem.filename or self.task["command"][0]
            limits.end()
            return self._outcome("failed", None, f"can't start {where}: {problem.strerror}")
        finally:
            os.close(printing)
        code = self._wait(program, printed, log, limits)
        processes.end_descendants(program.pid)
        _drain(printed, log)
        exceeded = limits.end()
        outcome, reason = judge(_read(self._file(TOLD)), code, self.stop)
        return self._outcome(outcome, code, exceeded if exceeded and outcome == "failed" else reason)

    def _start(self, printing: int, limits: Limits) -> subprocess.Popen[bytes]:
        settings = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        settings |= self.task["environment"]
        settings |= {processes.ATTEMPT: self.task["attempt"], TELL: self._file(TOLD)}
        parent = os.getpid()

        def prepare() -> None:
            processes.end_with(parent)
            limits.enter()

        name, lock = processes.hold(processes.program_name(self.task["attempt"])), _open_lock(self.folder, PROGRAM_LOCK)
        assert name is not None
        assert take(lock, _LOCK_TRIES)
        try:
            return subprocess.Popen(
                self.task["command"],
                cwd=self.task["folder"] if os.path.isdir(self.task["folder"]) else self.task.get("otherwise", "/"),
                env=settings,
                stdin=subprocess.DEVNULL,
                stdout=printing,
                stderr=printing,
                pass_fds=(name.fileno(), lock),
                start_new_session=True,
                preexec_fn=prepare,
            )
        finally:
            name.close()
            os.close(lock)

    def _wait(self, program: subprocess.Popen[bytes], printed: int, log: ProgramLog, limits: Limits) -> int:
        """Wait for the program; ask it to stop if that is wanted or its time is up, and kill it after the grace."""
        watched = [printed]
        with contextlib.suppress(
            AttributeError, OSError
        ):  # readable once the process has ended, where the system has it
            watched.append(os.pidfd_open(program.pid))
        killed_at: float | None = None
        look_at = 0.0
        while program.poll() is None:
            ready, _, _ = select.select(watched, [], [], _LOOK if len(watched) > 1 else 0.05)
            if printed in ready and not _copy(printed, log):
                watched.remove(printed)  # the program has closed it
            now = time.monotonic()
            if now < look_at and self.stop is None:
                continue
            look_at = now + _LOOK
            log.keep()
            processes.reap_orphans(program.pid)
            if limits.is_exceeded():
                processes.end_descendants(program.pid)
            if killed_at is None and self._is_stop_wanted(now):
                assert self.stop is not None
                killed_at = now + self._grace()
                # only the program itself, which ends its own processes after it has saved
                with contextlib.suppress(ProcessLookupError):
                    program.send_signal(signal.SIGTERM)
            elif killed_at is not None and now >= killed_at:
                killed_at = now + 1
                processes.end_descendants(program.pid)
        for descriptor in set(watched) - {printed}:
            os.close(descriptor)
        return int(program.returncode)

    def _is_stop_wanted(self, now: float | None = None) -> bool:
        """Whether to stop; notes why. Whatever is in the file that asks for it, it asks."""
        if self.stop is not None:
            return True
        limit = self.task.get("seconds")
        if now is not None and limit is not None and now - self.began >= limit:
            self.stop = {"timed_out": True}
        elif os.path.exists(self._file(STOP)):
            self.stop = _read(self._file(STOP)) or {}
        return self.stop is not None

    def _grace(self) -> float:
        """How long the program may take to save."""
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            asked = float((self.stop or {})["grace"])
            if 0 <= asked < math.inf:
                return asked
        return float(self.task["grace"])

    def _stop_on_signal(self, *_: object) -> None:
        if self.stop is None:
            self.stop = {"reason": "its supervisor was asked to stop"}

    def _outcome(self, outcome: str, code: int | None, reason: str) -> dict[str, Any]:
        seconds = round(time.monotonic() - self.began, 3)
        return {"outcome": outcome, "exit": code, "reason": reason, "seconds": seconds, "at": time.time()}

    def _file(self, name: str) -> str:
        return os.path.join(self.folder, name)


def judge(report: dict[str, Any] | None, code: int, stop: dict[str, Any] | None) -> tuple[str, str]:
    """The outcome of an attempt and its reason, by the program's own report, else by its exit code; `stop` is the
    request to stop."""
    outcome, reason = (report or {}).get("outcome"), str((report or {}).get("reason", ""))
    outcome = outcome if outcome in _REPORTED else None
    if outcome == "succeeded" or (outcome is None and code == 0):
        return "succeeded", reason
    if outcome == "refused":
        return "refused", reason
    if stop is not None and stop.get("timed_out"):
        return "timed out", "its time limit was reached"
    if outcome == "stopped" or stop is not None or (outcome is None and code in _STOPPED):
        return "stopped", reason or str((stop or {}).get("reason", ""))
    return "failed", reason or _exit_text(code)


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"the program ended with exit code {code}"
    try:
        return f"the program was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the program was ended by signal {-code}"


def take(lock: int, tries: int) -> bool:
    """Take a lock; False if another process keeps it. One that asks whether it is held has it for microseconds."""
    for _ in range(tries):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False


def is_taken(file: str | os.PathLike[str]) -> bool:
    """Whether a process holds the lock of a file. Asking holds it for microseconds: who takes it tries again."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _copy(printed: int, log: ProgramLog) -> bool:
    """Copy what was printed, as much as is there at once, to the log; whether there may be more."""
    try:
        text = os.read(printed, _CHUNK)
    except BlockingIOError:
        return True
    log.add(text)
    return bool(text)


def _drain(printed: int, log: ProgramLog) -> None:
    """Copy what was printed last."""
    until = time.monotonic() + _DRAINING
    while select.select([printed], [], [], 0)[0] and time.monotonic() < until and _copy(printed, log):
        pass
    os.close(printed)
    log.close()


# -- files


def _read(file: str) -> dict[str, Any] | None:
    """The content of a JSON file; None where there is none that can be read. Programs may have put anything there."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
        with open(descriptor, "rb") as opened:
            content = json.loads(opened.read(_LARGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _write(file: str, content: dict[str, Any]) -> None:
    """Write a JSON file atomically."""
    beside = f"{file}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as opened:
        json.dump(content, opened)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(beside, file)


def write_until_done(file: str, content: dict[str, Any]) -> None:
    """Write how the attempt ended; while the disk is full, wait: as long as the lock is held, nothing is lost."""

    def write() -> None:
        with contextlib.suppress(FileNotFoundError):  # all jobs were removed
            make_again(os.path.dirname(file))
            _write(file, content)

    until_done(write)


def until_done(act: Callable[[], object]) -> None:
    """Try something again, less and less often: while the disk is full for ever, else for an hour."""
    wait, until = 0.1, time.monotonic() + PATIENCE
    while True:
        try:
            act()
        except OSError as problem:
            if problem.errno not in DISK_IS_FULL and time.monotonic() > until:
                raise
            time.sleep(wait)
            wait = min(2 * wait, 10.0)
        else:
            return


def wake(pipe: str) -> None:
    """Wake the coordinator, if one listens."""
    with contextlib.suppress(OSError):
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(OSError):
            os.write(descriptor, b".")
        os.close(descriptor)
