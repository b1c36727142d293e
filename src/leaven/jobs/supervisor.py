"""Supervises one attempt of a job on this machine: starts its program, stops it when asked, and writes how it ended.

    attempts/17-1-a3f9c2/
        task.json         what to run
        supervisor.lock   held by the supervisor as long as it lives
        begun.json        written before the program is started: an attempt is begun at most once
        program.lock      held by the program and the processes that it forks
        log               what the program printed
        stop.json         written by whoever wants the attempt to end
        told.json         what the program itself says of how it ended
        outcome.json      how the attempt ended

This file is run, not imported, by a Python without site packages, so that a supervisor costs 10 MB and starts in
milliseconds; therefore it uses only the standard library. A supervisor needs no coordinator, and the program ends with
its supervisor. Whatever the program leaves behind is found by an environment variable, which processes inherit.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False  # `typing` takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TASK = "task.json"
LOCK = "supervisor.lock"
BEGUN = "begun.json"
PROGRAM_LOCK = "program.lock"
LOG = "log"
STOP = "stop.json"
TOLD = "told.json"
OUTCOME = "outcome.json"

ATTEMPT = "LEAVEN_ATTEMPT"  # the environment variable by which the processes of an attempt are found
TELL = "LEAVEN_OUTCOME"  # that with the file to which a program writes how it ended

PATIENCE = 3600.0  # seconds for which something that fails is tried again
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_LOOK = 0.25  # seconds between two looks at whether a stop is wanted
_LOCK_TRIES = 40
_STOPPED = (-signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT)
_SET_PARENT_DEATH_SIGNAL = 1


def main(folder: str) -> None:
    """Supervise the attempt in a folder."""
    # A parent that ignores this signal would let every program end with 0.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    with open(os.path.join(folder, TASK), encoding="utf-8") as file:
        task = json.load(file)
    lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    if not take(lock, _LOCK_TRIES) or os.path.exists(os.path.join(folder, BEGUN)):
        return  # another one supervises it, or did
    supervisor = Supervisor(folder, task)
    outcome = supervisor.run()
    write_until_done(os.path.join(folder, OUTCOME), outcome)
    wake(task.get("wake", ""))


class Supervisor:
    """One attempt: its folder, its task, and its program."""

    def __init__(self, folder: str, task: dict[str, Any]) -> None:
        self.folder = folder
        self.task = task
        self.stop: dict[str, Any] | None = None  # what was asked: {"grace": seconds, "reason": text, "timed_out": True}
        self.began = time.monotonic()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_by_signal)

    def run(self) -> dict[str, Any]:
        """Run the program to its end; how it ended."""
        if self._is_stop_wanted():
            return self._outcome("stopped", None, "stopped before it began")
        held = os.open(self._file(PROGRAM_LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        _write(self._file(BEGUN), {"supervisor": os.getpid(), "at": time.time()})
        log = os.open(self._file(LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            program = self._start(log, held)
        except OSError as problem:
            where = problem.filename or self.task["command"][0]
            return self._outcome("failed", None, f"can't start {where}: {problem.strerror}")
        finally:
            os.close(log)
        os.close(held)
        code = self._wait(program)
        end_processes(self.task["attempt"])
        outcome, reason = judge(_read(self._file(TOLD)), code, self.stop)
        return self._outcome(outcome, code, reason)

    def _start(self, log: int, held: int) -> subprocess.Popen[bytes]:
        settings = {**os.environ, **self.task["environment"]}
        settings[ATTEMPT] = self.task["attempt"]
        settings[TELL] = self._file(TOLD)
        parent = os.getpid()
        return subprocess.Popen(
            self.task["command"],
            cwd=_first_folder(self.task["folder"], self.task.get("otherwise", "/")),
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(held,),
            start_new_session=True,
            preexec_fn=lambda: end_with(parent),
        )

    def _wait(self, program: subprocess.Popen[bytes]) -> int:
        """Wait for the program; ask it to stop if that is wanted or its time is up, and kill it after the grace."""
        ended = _watch(program.pid)
        killed_at: float | None = None
        while program.poll() is None:
            _wait_for(ended, _LOOK)
            now = time.monotonic()
            if killed_at is None and self._is_stop_wanted(now):
                assert self.stop is not None
                killed_at = now + float(self.stop["grace"])
                # only the program itself, which ends its own processes after it has saved
                with contextlib.suppress(ProcessLookupError):
                    program.send_signal(signal.SIGTERM)
            elif killed_at is not None and now >= killed_at:
                killed_at = now + 1
                with contextlib.suppress(ProcessLookupError):
                    program.kill()
                end_processes(self.task["attempt"])
        if ended is not None:
            os.close(ended)
        return int(program.returncode)

    def _is_stop_wanted(self, now: float | None = None) -> bool:
        """Whether to stop; notes why."""
        if self.stop is not None:
            return True
        limit = self.task.get("seconds")
        if now is not None and limit is not None and now - self.began >= limit:
            self.stop = {"grace": self.task["grace"], "timed_out": True}
        else:
            self.stop = _read(self._file(STOP))
        return self.stop is not None

    def _asked_by_signal(self, *_: object) -> None:
        if self.stop is None:
            self.stop = {"grace": self.task["grace"], "reason": "its supervisor was asked to stop"}

    def _outcome(self, outcome: str, code: int | None, reason: str) -> dict[str, Any]:
        seconds = round(time.monotonic() - self.began, 3)
        return {"outcome": outcome, "exit": code, "reason": reason, "seconds": seconds, "at": time.time()}

    def _file(self, name: str) -> str:
        return os.path.join(self.folder, name)


def judge(told: dict[str, Any] | None, code: int, stop: dict[str, Any] | None) -> tuple[str, str]:
    """How an attempt ended and why, by what the program says, else by its exit code; `stop` is what was asked."""
    said, reason = (told or {}).get("outcome"), str((told or {}).get("reason", ""))
    if said == "succeeded" or (said is None and code == 0):
        return "succeeded", reason
    if stop is not None and stop.get("timed_out"):
        return "timed out", "its time limit was reached"
    if said == "stopped" or stop is not None or (said is None and code in _STOPPED):
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


def end_with(parent: int, number: int = signal.SIGKILL) -> None:
    """In the new process: get a signal when the parent dies, also if it already has."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os._exit(1)


def _watch(pid: int) -> int | None:
    """A descriptor that can be read when a process has ended; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _wait_for(ended: int | None, seconds: float) -> None:
    if ended is None:
        time.sleep(min(seconds, 0.05))
    else:
        select.select([ended], [], [], seconds)


# -- processes


def end_processes(attempt: str) -> bool:
    """Kill all processes of an attempt; whether none is left."""
    for _ in range(50):
        found = processes_of(attempt)
        if not found:
            return True
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return False


def processes_of(attempt: str) -> list[int]:
    """The processes that carry the name of an attempt in their environment."""
    mark = f"{ATTEMPT}={attempt}".encode()
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
    return found


# -- files


def _first_folder(*places: str) -> str:
    return next((place for place in places if os.path.isdir(place)), places[-1])


def _read(file: str) -> dict[str, Any] | None:
    """What a JSON file holds; None where there is none that can be read."""
    try:
        with open(file, encoding="utf-8") as opened:
            found = json.load(opened)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


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
        if os.path.isdir(os.path.dirname(file)):
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


if __name__ == "__main__":
    main(sys.argv[1])
