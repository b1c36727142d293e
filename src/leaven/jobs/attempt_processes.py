"""The processes of an attempt on this machine: whether any lives, which they are, and how all of them are ended.

An attempt that lives holds names, which belong to no folder and end with the processes that hold them: one its
supervisor, another its program and what that starts. So nobody can delete what says that it lives. Its processes are
known by an environment variable, by the name of their control group and by the name that they hold, all of which
processes inherit; one that gets rid of them is still a descendant of the supervisor, which adopts orphans. As a part of
the supervisor, this uses only the standard library.
"""

from __future__ import annotations

import _socket  # `socket` makes enumerations of all constants, which takes longer than all the rest
import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable

ATTEMPT = "LEAVEN_ATTEMPT"  # the environment variable by which the processes of an attempt are found
PREFIX = "leaven-"  # of names and control groups

_LONGEST_NAME = 100  # bytes; the system takes 107
_ENDING = 1.0  # seconds in which killed processes must be gone
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # of prctl


# -- names


def supervisor_name(attempt: str) -> str:
    """The name that the supervisor of an attempt holds."""
    return PREFIX + attempt


def program_name(attempt: str) -> str:
    """The name that the program of an attempt holds, with the processes that it forks."""
    return f"{PREFIX}{attempt}+program"


def hold(name: str) -> _socket.socket | None:
    """Take a name for as long as the socket is open, here or in a process that inherits it; None if it is taken."""
    holder = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        holder.bind(_address(name))
    except OSError:
        holder.close()
        return None
    return holder


def is_held(name: str) -> bool:
    """Whether a process holds a name. Asking does not take it."""
    asking = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        asking.connect(_address(name))
    except OSError:
        return False
    finally:
        asking.close()
    return True


def _address(name: str) -> bytes:
    return b"\0" + name.encode(errors="replace")[-_LONGEST_NAME:]


# -- what belongs to an attempt


def processes_of(attempt: str) -> list[int]:
    """The processes that carry the name of an attempt: in their environment, as their control group, or held."""
    mark, group = f"{ATTEMPT}={attempt}".encode(), f"/{PREFIX}{attempt}\n".encode()
    sockets = _socket_links(program_name(attempt))

    def is_marked(pid: int) -> bool:
        return mark in process_file(pid, "environ").split(b"\0") or group in process_file(pid, "cgroup")

    return [pid for pid in _other_processes() if is_marked(pid) or (sockets and sockets & _open_file_links(pid))]


def _socket_links(name: str) -> set[str]:
    """The targets of links in /proc to the sockets that hold a name."""
    if not is_held(name):
        return set()
    with contextlib.suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        rows = [line.split() for line in file]
        return {f"socket:[{row[6]}]" for row in rows if len(row) > 7 and row[7] == "@" + _address(name)[1:].decode()}
    return set()


def _open_file_links(pid: int) -> set[str]:
    """The targets of links in /proc to the open files of a process."""
    links, folder = set(), f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                links.add(os.readlink(f"{folder}/{name}"))
    return links


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, those that these have started, and so on."""
    children: dict[int, list[int]] = {}
    for child in _other_processes():
        fields = process_file(child, "stat").rpartition(b")")[2].split()
        if len(fields) > 1 and fields[0] != b"Z":
            children.setdefault(int(fields[1]), []).append(child)
    below, todo = [], [pid]
    while todo:
        new = children.pop(todo.pop(), [])
        below += new
        todo += new
    return below


def _other_processes() -> Iterable[int]:
    here = os.getpid()
    names = os.listdir("/proc") if os.path.isdir("/proc") else ()
    return (int(name) for name in names if name.isdigit() and int(name) != here)


def process_file(pid: int, name: str) -> bytes:
    """The content of a file of a process in /proc; empty where it can't be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


# -- ending them


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parents end."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def end_with(parent: int, number: int = signal.SIGKILL) -> None:
    """In the new process: get a signal when the parent dies, also if it already has."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(*given: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(*given)


def reap_orphans(program: int) -> bool:
    """Let the system forget adopted processes that have ended, not the program; whether there may be other children."""
    try:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == program:
                break
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def end_descendants(program: int) -> bool:
    """In the supervisor, after it has begun to adopt orphans: kill all that its program has started, and the program if
    it still runs; whether none is left. None can hide."""
    return _end(lambda: descendants(os.getpid()) if reap_orphans(program) else ())


def end_processes(attempt: str) -> bool:
    """Kill all processes of an attempt whose supervisor is gone; whether none is left."""
    return _end(lambda: processes_of(attempt))


def _end(find: Callable[[], Iterable[int]]) -> bool:
    until = time.monotonic() + _ENDING
    while pids := list(find()):
        for number in (signal.SIGSTOP, signal.SIGKILL):  # first of all, so that none starts others meanwhile
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
