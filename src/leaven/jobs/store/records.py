"""Jobs and attempts as they are in a store: what is read of them, and the columns in which that is.

What a user wants, what may start and what is so are different columns: the first are written by users alone, the second
by the one coordinator that leads, the third by the coordinator of the job's owner, its agent, so that none overwrites
another's. Numbers are in columns of their type, unless they name another. The columns of a table are the fields of its
record in the same order: a row has its values.
"""

import json
from dataclasses import dataclass, fields
from typing import Annotated, Any

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, Text

from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry, Outcome, State, Wanted
from leaven.jobs.store.texts import Choice, Content, Words


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Times are for people: nothing is decided by them."""

    id: Annotated[int, Column(Integer, primary_key=True)]
    # by users, at submit
    name: Annotated[str, Column(Words(200), unique=True)]
    owner: Annotated[str, Column(Words(100))]
    agent: Annotated[str, Column(Words(400), default="")]  # which coordinator starts it
    batch: Annotated[str, Column(Words(200), default="")]  # what was submitted together, such as a sweep
    package: Annotated[str, Column(Words(64))]
    environment: Annotated[str, Column(Words(100))]
    settings: Annotated[str, Column(Text, default="{}")]  # JSON: of the environment, at the submit
    entry: Annotated[Entry, Column(Choice(Entry))]
    arguments: Annotated[list[str], Column(Content)]
    variables: Annotated[dict[str, str], Column(Content, default="{}")]  # of the program's environment
    secrets: Annotated[list[str], Column(Content, default="[]")]  # names of variables whose values are not stored
    run: Annotated[str, Column(Words(4000))]
    project: Annotated[str, Column(Words(4000))]
    epochs: int | None
    monitor: Annotated[str, Column(Words(200), default="")]
    cpus: int
    memory: Annotated[int, Column(BigInteger)]
    gpus: int
    processes: int
    nodes: int
    minutes: float | None
    retries: int
    submitted: float
    # by users, at any time
    priority: int
    wanted: Annotated[Wanted, Column(Choice(Wanted))]
    wanted_round: Annotated[int, Column(Integer, default=1)]  # one more with every `retry`
    # by coordinators
    state: Annotated[State, Column(Choice(State))]
    round: Annotated[int, Column(Integer, default=1)]
    attempt: Annotated[str | None, Column(Words(64))]  # the current one
    attempts: Annotated[int, Column(Integer, default=0)]
    preempted: Annotated[str | None, Column(Words(64))]  # the attempt that must make room for others
    failures: Annotated[int, Column(Integer, default=0)]  # of this round, which use up retries
    delay: Annotated[float, Column(Float, default=0.0)]  # seconds to wait before the next attempt
    delayed: Annotated[float, Column(Float, default=0.0)]  # since when
    reason: Annotated[str, Column(Words(2000), default="")]  # why the last attempt ended
    waits: Annotated[str, Column(Words(500), default="")]  # why the next one does not run yet
    progress: Annotated[str, Column(Text, default="")]  # JSON
    started: float | None
    ended: float | None

    @property
    def resources(self) -> Resources:
        return Resources(self.cpus, self.memory, self.gpus, self.processes, self.nodes, self.minutes)

    @property
    def is_paused(self) -> bool:
        return self.state is State.QUEUED and self.wanted is Wanted.PAUSE

    @property
    def shown_state(self) -> str:
        """The state, as users are told."""
        return "paused" if self.is_paused else self.state.value

    def to_json(self) -> dict[str, Any]:
        """The job as plain data, with its state as users are told."""
        progress = json.loads(self.progress) if self.progress else None
        shown = {"state": self.shown_state, "settings": json.loads(self.settings), "progress": progress}
        return {field.name: getattr(self, field.name) for field in fields(self)} | shown


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a job."""

    id: Annotated[str, Column(Words(64), primary_key=True)]
    job: Annotated[int, Column(Integer, ForeignKey("jobs.id"), index=True)]
    number: int
    environment: Annotated[str, Column(Words(100))]
    native: Annotated[str, Column(Words(200), default="")]  # the environment's own id
    devices: Annotated[str, Column(Words(200), default="")]
    submitted: float
    started: float | None
    ended: float | None
    outcome: Annotated[Outcome | None, Column(Choice(Outcome))]
    exit_code: int | None
    reason: Annotated[str, Column(Words(2000), default="")]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job."""

    id: Annotated[int, Column(Integer, primary_key=True)]
    job: Annotated[int, Column(Integer, ForeignKey("jobs.id"), index=True)]
    at: float
    actor: Annotated[str, Column(Words(100))]
    what: Annotated[str, Column(Words(32))]
    detail: Annotated[str, Column(Words(1000), default="")]


@dataclass(frozen=True, slots=True)
class Agent:
    """A coordinator that starts jobs; `capacity` is what its environments have, by the keys that it gives them."""

    id: Annotated[str, Column(Words(400), primary_key=True)]
    owner: Annotated[str, Column(Words(100))]
    host: Annotated[str, Column(Words(200))]
    folder: Annotated[str, Column(Words(4000))]
    pid: int
    version: Annotated[str, Column(Words(64))]
    capacity: Annotated[dict[str, Any], Column(Content, default="{}")]  # of each of its environments
    since: float
    seen: float


@dataclass(frozen=True, slots=True)
class EnvironmentRecord:
    """Whether an agent reaches an environment, and if not, since when."""

    agent: Annotated[str, Column(Words(400), primary_key=True)]
    name: Annotated[str, Column(Words(100), primary_key=True)]
    unreachable_since: float | None
    problem: Annotated[str, Column(Words(2000), default="")]
