"""The interface of environments: calls that can be repeated, each with a time-out, and their results.

An attempt has an id that travels with whatever the environment makes of it, so that `poll` knows it again: a crash in
the middle of a submit never submits twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from leaven.jobs.resources import Resources, Slots
from leaven.jobs.states import Entry, Outcome

GRACE = 60.0  # seconds in which a program may save before it is killed
PIECE = 256 * 1024  # bytes of a log that are read at once: a log may be larger than the memory


class Unreachable(Exception):
    """An environment does not answer. Nothing is known about its jobs, and nothing is lost: it is asked again."""


class Refused(Exception):
    """An environment will never run an attempt, and says why."""


@dataclass(frozen=True)
class Task:
    """An attempt, as an environment gets it. `folder` is the attempt's own, `run` that of the run."""

    attempt: str
    folder: Path
    run: Path
    project: Path
    entry: Entry
    arguments: Sequence[str]
    resources: Resources
    devices: Sequence[int] = ()  # the GPUs of the machine that it may use
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # more variables, in no file where that can be


@dataclass(frozen=True)
class Status:
    """The status of an attempt in an environment. One that it does not know is `absent`, and may be submitted again."""

    phase: Literal["absent", "starting", "running", "ended"]
    outcome: Outcome | None = None
    exit_code: int | None = None
    reason: str = ""
    native: str = ""  # the environment's own id, where it has one for what it knows by the attempt's


@dataclass(frozen=True)
class Check:
    """Something that an environment needs, whether it is there, and what to do where it is not."""

    what: str
    is_right: bool
    found: str
    help: str = ""


class Position(NamedTuple):
    """How far a log was read: the number of bytes, and of which file, by its inode (0: whichever it is)."""

    offset: int = 0
    file: int = 0


class Environment(Protocol):
    """Where jobs run."""

    def capacity(self) -> Slots | None:
        """The slots that it has for jobs; None where it has a queue of its own."""

    def submit(self, task: Task) -> str:
        """Start an attempt, or do nothing if it was started; the environment's own id of it.

        An empty id means that it can't be started yet: `poll` says why, and when it is to be submitted again.
        """

    def poll(self, attempts: Mapping[str, str]) -> Mapping[str, Status]:
        """The statuses of attempts by their ids; `attempts` has the environment's own ids ("" where unknown)."""

    def cancel(self, attempt: str, native: str, grace: float) -> None:
        """Ask an attempt to save and stop; it is killed after some seconds."""

    def logs(self, attempt: str, native: str, start: Position, most: int) -> tuple[bytes, Position]:
        """At most that many bytes of an attempt's log, fewer only at its end, and the position after them."""

    def check(self) -> Iterator[Check]:
        """The requirements for using it, each tested without submitting anything."""


@runtime_checkable
class TakesArrays(Protocol):
    """An environment that takes many attempts at once, which need the same."""

    def submit_array(self, tasks: Sequence[Task]) -> list[str]:
        """Start attempts as one job of the environment's; its own id of each."""
