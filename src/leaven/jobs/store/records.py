"""Jobs and attempts as they are in a store."""

import json
from dataclasses import dataclass, fields
from typing import Any, Self

from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry, Outcome, State, Wanted
from leaven.jobs.store.schema import jobs


@dataclass(frozen=True, slots=True)
class Job:
    """A job; `schema.py` says who writes what. Times are for people: nothing is decided by them."""

    id: int
    name: str
    owner: str
    agent: str
    batch: str
    package: str
    environment: str
    settings: str
    entry: Entry
    arguments: str
    variables: str
    secrets: str
    run: str
    project: str
    epochs: int | None
    monitor: str
    cpus: int
    memory: int
    gpus: int
    processes: int
    nodes: int
    minutes: float | None
    retries: int
    submitted: float
    priority: int
    wanted: Wanted
    wanted_round: int
    state: State
    round: int
    attempt: str | None
    attempts: int
    preempted: str | None
    failures: int
    delay: float
    delayed: float
    reason: str
    waits: str
    progress: str
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
assert tuple(jobs.c.keys()) == _FIELDS
_ENTRY, _WANTED, _STATE = (_FIELDS.index(name) for name in ("entry", "wanted", "state"))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a job."""

    id: str
    job: int
    number: int
    environment: str
    native: str
    devices: str
    submitted: float
    started: float | None
    ended: float | None
    outcome: Outcome | None
    exit_code: int | None
    reason: str

    @classmethod
    def of(cls, row: Any) -> Self:
        values = row._asdict()
        values["outcome"] = Outcome(values["outcome"]) if values["outcome"] else None
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job."""

    id: int
    job: int
    at: float
    actor: str
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class Agent:
    """A coordinator that starts jobs; `capacity` is what its environments have, by the keys that it gives them."""

    id: str
    owner: str
    host: str
    folder: str
    pid: int
    version: str
    capacity: dict[str, Any]
    since: float
    seen: float

    @classmethod
    def of(cls, row: Any) -> Self:
        values = row._asdict()
        return cls(**{**values, "capacity": json.loads(values["capacity"])})


@dataclass(frozen=True, slots=True)
class EnvironmentRecord:
    """Whether an agent reaches an environment, and if not, since when."""

    agent: str
    name: str
    unreachable_since: float | None
    problem: str
