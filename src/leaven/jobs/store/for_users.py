"""The store as users use it: they submit jobs, read them, and say what they want of them.

Every write counts up the revision, by which a coordinator notices it.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from leaven.jobs.resources import Resources
from leaven.jobs.states import ENDED, NOT_SEEN, Entry, State, Wanted
from leaven.jobs.store.access import Access, in_parts, note
from leaven.jobs.store.failures import NameTaken, StoreError
from leaven.jobs.store.records import Attempt, EnvironmentRecord, Event, Job
from leaven.jobs.store.schema import attempts, dependencies, environments, events, jobs

_EVENTS = {Wanted.RUN: "resume", Wanted.STOP: "cancel", Wanted.PAUSE: "pause"}  # what users do, by what they want


@dataclass(frozen=True)
class Submission:
    """A new job. `after` are the ids of jobs that must end before it, or negative positions in the same list."""

    name: str | None
    stem: str  # what it is called where it has no name: `dogs-17`
    package: str
    environment: str
    settings: Mapping[str, Any]  # of the environment
    entry: Entry
    arguments: Sequence[str]
    run: str
    project: str
    resources: Resources
    retries: int
    priority: int = 0
    after: Sequence[int] = ()
    after_any_end: bool = False  # whether those before may fail
    batch: str = ""
    epochs: int | None = None
    monitor: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    agent: str = ""


class NoSuchJob(StoreError):
    """A job is not in the store."""


class JobStore(Access):
    """Jobs, for users."""

    def close(self) -> None:
        self.engine.dispose()

    # -- new jobs

    def submit(self, submissions: Sequence[Submission]) -> list[int]:
        """Add jobs, all or none; their ids."""
        with self.writing(wakes=True) as connection:
            ids: list[int] = []
            for submission in submissions:
                ids.append(self._add(connection, submission, ids))
            note(connection, ids, self.user, "submit")
            return ids

    def _add(self, connection: Connection, new: Submission, before: Sequence[int]) -> int:
        values = {field.name: getattr(new, field.name) for field in fields(new) if field.name in jobs.c}
        values |= {
            **new.resources.to_json(),
            "name": new.name or f"new-{time.monotonic_ns()}-{len(before)}",
            "owner": self.user,
            "settings": json.dumps(new.settings, sort_keys=True),
            "submitted": time.time(),
            "wanted": Wanted.RUN,
            "state": State.QUEUED,
            "waits": NOT_SEEN,
        }
        try:
            (id,) = connection.execute(insert(jobs).values(**values).returning(jobs.c.id)).one()
            if new.name is None:
                connection.execute(update(jobs).where(jobs.c.id == id).values(name=f"{new.stem}-{id}"))
        except IntegrityError:
            raise NameTaken(
                f"a job named `{new.name}` exists already",
                f"choose another name, or remove it: `leaven jobs clean {new.name}`",
            ) from None
        for after in dict.fromkeys(new.after):
            first = before[-after - 1] if after < 0 else after
            if connection.execute(select(jobs.c.id).where(jobs.c.id == first)).first() is None:
                raise StoreError(f"there is no job {first}")
            values = {"job": id, "after": first, "needs_success": int(not new.after_any_end)}
            connection.execute(insert(dependencies).values(**values))
        return int(id)

    # -- what users want

    def want(self, ids: Sequence[int], wanted: Wanted) -> None:
        self._ask(ids, _EVENTS[wanted], wanted=wanted)

    def retry(self, ids: Sequence[int]) -> None:
        """Ask for one more round of jobs that have ended."""
        self._ask(ids, "retry", wanted=Wanted.RUN, wanted_round=jobs.c.round + 1)

    def set_priority(self, ids: Sequence[int], priority: int) -> None:
        self._ask(ids, "priority", str(priority), priority=priority)

    def _ask(self, ids: Sequence[int], what: str, detail: str = "", **values: Any) -> None:
        with self.writing(wakes=True) as connection:
            for some in in_parts(ids):
                connection.execute(update(jobs).where(jobs.c.id.in_(some)).values(**values))
            note(connection, ids, self.user, what, detail)

    def remove(self, ids: Sequence[int], *, whatever_state: bool = False) -> tuple[list[str], set[str]]:
        """Remove jobs that have ended; the ids of their attempts, and the packages that no other job needs."""
        query = select(jobs.c.id, jobs.c.package).where(jobs.c.id.in_(ids))
        if not whatever_state:
            query = query.where(jobs.c.state.in_(ENDED))
        with self.writing(wakes=True) as connection:
            packages_of = {row.id: row.package for row in connection.execute(query)}
            removed, packages = list(packages_of), set(packages_of.values())
            gone = [row.id for row in connection.execute(select(attempts.c.id).where(attempts.c.job.in_(removed)))]
            for column in (dependencies.c.job, dependencies.c.after, attempts.c.job, events.c.job, jobs.c.id):
                connection.execute(delete(column.table).where(column.in_(removed)))
            still = connection.execute(select(jobs.c.package).where(jobs.c.package.in_(packages)).distinct())
            return gone, packages - {row.package for row in still}

    def ended(self, agent: str, until: float | None, limit: int) -> list[int]:
        """Some jobs of an agent of this user that have ended, until a moment, and that no queued job waits for."""
        waiting = jobs.alias("waiting")
        needed = select(dependencies.c.after).join(waiting, waiting.c.id == dependencies.c.job)
        needed = needed.where(waiting.c.state == State.QUEUED)
        query = select(jobs.c.id).where(jobs.c.state.in_(ENDED), jobs.c.agent == agent, jobs.c.id.not_in(needed))
        if agent:
            query = query.where(jobs.c.owner == self.user)
        if until is not None:
            query = query.where(jobs.c.ended < until)
        return [row.id for row in self.rows(query.limit(limit))]

    # -- reading

    def jobs(self, *, states: Sequence[State] = (), limit: int | None = None, before: int | None = None) -> list[Job]:
        """Jobs in the order of their ids, all of them or those before one; with a limit, the newest."""
        query = select(jobs)
        if states:
            query = query.where(jobs.c.state.in_(states))
        if before is not None:
            query = query.where(jobs.c.id < before)
        if limit is not None:
            query = query.order_by(jobs.c.id.desc()).limit(limit)
        return sorted((Job(*row) for row in self.rows(query)), key=lambda job: job.id)

    def job(self, word: str) -> Job:
        """The job of that number or name."""
        wanted = jobs.c.name == word
        if word.isdecimal() and len(word) < 10:
            wanted = or_(jobs.c.id == int(word), wanted)
        for row in self.rows(select(jobs).where(wanted).order_by(jobs.c.id).limit(1)):
            return Job(*row)
        raise NoSuchJob(f"there is no job `{word}`", "`leaven jobs` lists them")

    def described(self, id: int, most_events: int | None = None) -> dict[str, Any]:
        """A job as plain data, with its attempts and its newest events."""
        tries, events = map(asdict, self.attempts(id)), map(asdict, self.events(id, most_events))
        return {**self.job(str(id)).to_json(), "after": self.after(id), "tries": list(tries), "events": list(events)}

    def attempts(self, job: int) -> list[Attempt]:
        query = select(attempts).where(attempts.c.job == job).order_by(attempts.c.number)
        return [Attempt(*row) for row in self.rows(query)]

    def events(self, job: int, limit: int | None = None) -> list[Event]:
        """The events of a job in their order; with a limit, the newest."""
        query = select(events).where(events.c.job == job).order_by(events.c.id.desc()).limit(limit)
        return [Event(*row) for row in self.rows(query)][::-1]

    def after(self, job: int) -> list[int]:
        """The jobs that a job waits for, or waited for."""
        query = select(dependencies.c.after).where(dependencies.c.job == job).order_by(dependencies.c.after)
        return [row.after for row in self.rows(query)]

    def unmet(self, job: int) -> list[Job]:
        """The jobs that must have succeeded before this one, and have ended otherwise."""
        ended = [state for state in ENDED if state is not State.SUCCEEDED]
        query = select(jobs).join(dependencies, jobs.c.id == dependencies.c.after)
        query = query.where(dependencies.c.job == job, dependencies.c.needs_success == 1, jobs.c.state.in_(ended))
        return [Job(*row) for row in self.rows(query)]

    def dependants(self, ids: Sequence[int]) -> list[int]:
        """The jobs that wait for some jobs and have not ended."""
        query = select(dependencies.c.job).join(jobs, jobs.c.id == dependencies.c.job)
        query = query.where(dependencies.c.after.in_(ids), jobs.c.state == State.QUEUED).distinct()
        return [row.job for row in self.rows(query) if row.job not in ids]

    def counts(self) -> dict[State, int]:
        query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
        return dict(map(tuple, self.rows(query)))

    def environments(self) -> list[EnvironmentRecord]:
        return [EnvironmentRecord(*row) for row in self.rows(select(environments).order_by(environments.c.name))]
