"""The store as only the leader uses it, for the jobs of all users: which may start, and why others wait."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import insert, or_, select, update

from leaven.jobs.resources import Slots
from leaven.jobs.states import ACTIVE, ENDED, State, Wanted
from leaven.jobs.store.access import Access, in_parts, note
from leaven.jobs.store.schema import attempts, dependencies, jobs, usage


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A job, as far as the order of starting depends on it."""

    id: int
    owner: str
    agent: str
    batch: str
    environment: str
    settings: str
    priority: int
    cpus: int
    memory: int
    gpus: int
    minutes: float | None

    @property
    def slots(self) -> Slots:
        return Slots(self.cpus, self.memory, self.gpus)


@dataclass(frozen=True, slots=True)
class Waiting(Scheduled):
    """One that is queued."""

    delay: float
    delayed: float
    attempts: int
    waits: str


@dataclass(frozen=True, slots=True)
class Running(Scheduled):
    """One that has an attempt under way."""

    attempt: str
    preempted: str | None
    devices: str
    started: float | None

    @property
    def seconds_left(self) -> float:
        """How long it may still run: infinite without a limit, and never longer, however the time of day jumps."""
        if self.minutes is None:
            return math.inf
        limit = 60 * self.minutes
        return min(max(0.0, limit - (time.time() - (self.started or time.time()))), limit)

    @property
    def is_preemptible(self) -> bool:
        return bool(json.loads(self.settings).get("preemptible"))

    @property
    def is_leaving(self) -> bool:
        """Whether it was asked to make room."""
        return self.preempted == self.attempt


_WAITING = tuple(field.name for field in fields(Waiting))
_OF_ATTEMPT = ("devices", "started")
_RUNNING = tuple(field.name for field in fields(Running) if field.name not in _OF_ATTEMPT)
_HALF_LIFE = 86_400.0  # seconds after which half of what was used is forgotten
_ENDED_TEXT = {State.FAILED: "failed", State.CANCELLED: "was cancelled", State.LOST: "was lost"}


class LeaderStore(Access):
    """Jobs of all users."""

    def running(self) -> list[Running]:
        """The jobs that have an attempt under way, with the GPUs that they have."""
        query = select(*(jobs.c[name] for name in _RUNNING), *(attempts.c[name] for name in _OF_ATTEMPT))
        query = query.join(attempts, attempts.c.id == jobs.c.attempt)
        query = query.where(jobs.c.state.in_(ACTIVE))
        return [Running(**row._asdict()) for row in self.rows(query)]

    def waiting(self) -> list[Waiting]:
        """The queued jobs that users want to run."""
        query = select(*(jobs.c[name] for name in _WAITING)).where(
            jobs.c.state == State.QUEUED, jobs.c.wanted == Wanted.RUN
        )
        return [Waiting(*row) for row in self.rows(query)]

    def blocked(self) -> dict[int, list[str]]:
        """The queued jobs that must wait for others, with the names of these."""
        first, query = _queued_after()
        query = query.where(first.c.state != State.SUCCEEDED).order_by(first.c.id)
        query = query.where(or_(dependencies.c.needs_success == 1, first.c.state.not_in(ENDED)))
        names: dict[int, list[str]] = {}
        for row in self.rows(query):
            names.setdefault(row.job, []).append(row.name)
        return names

    def cancel_dependants(self) -> int:
        """Cancel queued jobs that need one which has not succeeded; their number."""
        first, query = _queued_after()
        query = query.where(dependencies.c.needs_success == 1, first.c.state.in_(list(_ENDED_TEXT)))
        query = query.where(jobs.c.wanted_round == jobs.c.round, first.c.wanted_round == first.c.round)
        reasons = {row.job: f"{row.name}, which it waited for, {_ENDED_TEXT[row.state]}" for row in self.rows(query)}
        for job, reason in reasons.items():
            values = {"state": State.CANCELLED, "reason": reason, "waits": "", "ended": time.time()}
            self.change((jobs.c.id == job) & (jobs.c.state == State.QUEUED), values, State.CANCELLED, reason)
        return len(reasons)

    def note_waits(self, waits: Mapping[int, str]) -> None:
        """Note why jobs don't run yet."""
        by_text: dict[str, list[int]] = {}
        for job, text in waits.items():
            by_text.setdefault(text, []).append(job)
        with self.writing() as connection:
            for text, ids in by_text.items():
                for some in in_parts(ids):
                    connection.execute(update(jobs).where(jobs.c.id.in_(some)).values(waits=text))

    def preempt(self, ids: Sequence[int]) -> None:
        """Let running jobs make room for others."""
        values = {"preempted": jobs.c.attempt}
        which = jobs.c.id.in_(ids) & jobs.c.state.in_(ACTIVE)
        self.change(which, values, "preempted", wakes=True)

    # -- what users have used, and may have

    def used(self) -> dict[str, float]:
        """The seconds of cores that each user has used lately."""
        now = time.time()
        return {row.owner: row.core_seconds * decayed(now - row.at) for row in self.rows(select(usage))}

    def note_used(self, used: Mapping[str, float]) -> None:
        with self.writing() as connection:
            for owner, seconds in used.items():
                self.upsert(connection, usage, {"owner": owner}, {"core_seconds": seconds, "at": time.time()})

    def begin_attempt(self, job: Waiting, attempt: str, devices: Sequence[int], *, wakes: bool) -> bool:
        """Record an attempt before it is submitted; False if the job may not start any more."""
        shown = ",".join(map(str, devices))
        number = job.attempts + 1
        with self.writing(wakes=wakes) as connection:
            is_wanted = (jobs.c.state == State.QUEUED) & (jobs.c.wanted == Wanted.RUN)
            values = {"state": State.STARTING, "attempt": attempt, "attempts": number, "reason": ""}
            values["waits"] = f"is being submitted to {job.environment}"
            if not connection.execute(update(jobs).where(jobs.c.id == job.id, is_wanted).values(**values)).rowcount:
                return False
            row = {"id": attempt, "job": job.id, "number": number, "environment": job.environment, "devices": shown}
            connection.execute(insert(attempts).values(**row, submitted=time.time()))
            note(connection, [job.id], self.user, "starting", f"attempt {number}")
        return True


def _queued_after() -> tuple[Any, Any]:
    """The jobs that others come after, and a query of these that are queued."""
    first = jobs.alias("first")
    query = select(dependencies.c.job, first.c.name, first.c.state).join(first, dependencies.c.after == first.c.id)
    return first, query.join(jobs, dependencies.c.job == jobs.c.id).where(jobs.c.state == State.QUEUED)


def decayed(seconds: float) -> float:
    """The part of what was used that still counts; a clock that jumped back takes nothing away."""
    return math.exp2(-max(0.0, seconds) / _HALF_LIFE)
