"""Jobs and attempts as they are in a store: what is read of them, and the columns in which that is.

What a user wants, what may start and what is so are different columns: the first are written by users alone, the second
by the one coordinator that leads, the third by the coordinator of the job's owner, its agent, so that none overwrites
another's. Numbers are in columns of their type, unless they name another.
"""

import json
from dataclasses import dataclass, fields
from typing import Annotated, Any, Self

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, Text

from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry, Outcome, State, Wanted
from leaven.jobs.store.texts import Words


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
    entry: Annotated[Entry, Column(Words(32))]
    arguments: Annotated[str, Column(Text)]  # JSON
    variables: Annotated[str, Column(Text, default="{}")]  # JSON: of the program's environment
    secrets: Annotated[str, Column(Text, default="[]")]  # JSON: names of variables whose values are not stored
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
    wanted: Annotated[Wanted, Column(Words(16))]
    wanted_round: Annotated[int, Column(Integer, default=1)]  # one more with every `retry`
    # by coordinators
    state: Annotated[State, Column(Words(16))]
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
        data = {name: getattr(self, name) for name in _FIELDS}
        data |= {"state": self.shown_state, "wanted": self.wanted.value}
        data["progress"] = json.loads(self.progress) if self.progress else None
        for name in ("settings", "arguments", "variables", "secrets"):
            data[name] = json.loads(data[name])
        return data

    @classmethod
    def of(cls, row: Any) -> Self:
        """A row of the table, whose columns are the fields in the same order: a list may have ten thousands of them."""
        values = list(row)
        values[_ENTRY] = Entry(values[_ENTRY])
        values[_WANTED], values[_STATE] = Wanted(values[_WANTED]), State(values[_STATE])
        return cls(*values)


_FIELDS = tuple(field.name for field in fields(Job))
_ENTRY, _WANTED, _STATE = (_FIELDS.index(name) for name in ("entry", "wanted", "state"))


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
    outcome: Annotated[Outcome | None, Column(Words(16))]
    exit_code: int | None
    reason: Annotated[str, Column(Words(2000), default="")]

    @classmethod
    def of(cls, row: Any) -> Self:
        values = row._asdict()
        values["outcome"] = Outcome(values["outcome"]) if values["outcome"] else None
        return cls(**values)


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
    capacity: Annotated[dict[str, Any], Column(Text, default="{}")]  # JSON: what each of its environments has
    since: float
    seen: float

    @classmethod
    def of(cls, row: Any) -> Self:
        values = row._asdict()
        return cls(**{**values, "capacity": json.loads(values["capacity"])})


@dataclass(frozen=True, slots=True)
class EnvironmentRecord:
    """Whether an agent reaches an environment, and if not, since when."""

    agent: Annotated[str, Column(Words(400), primary_key=True)]
    name: Annotated[str, Column(Words(100), primary_key=True)]
    unreachable_since: float | None
    problem: Annotated[str, Column(Words(2000), default="")]
