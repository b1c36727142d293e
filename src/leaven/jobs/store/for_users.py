"""What users read and write: new jobs, and what they want of the old ones.

Every write counts up the revision, by which a coordinator notices it.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from leaven.jobs.resources import Resources
from leaven.jobs.states import ENDED, Entry, State, Wanted
from leaven.jobs.store.connection import StoreError, StoreFailed
from leaven.jobs.store.records import Attempt, EnvironmentRecord, Job
from leaven.jobs.store.schema import attempts, dependencies, environments, facts, jobs, revisions


@dataclass(frozen=True)
class Submission:
    """A new job. `after` are the ids of jobs that must end before it, or negative positions in the same list."""

    name: str | None
    stem: str  # what it is called where it has no name: `dogs-17`
    owner: str
    package: str
    environment: str
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


class NoSuchJob(StoreError):
    """A job is not in the store."""


class JobStore:
    """Jobs, for users."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction that a coordinator notices."""
        with raising_store_errors(), self._engine.begin() as connection:
            connection.execute(update(revisions).values(number=revisions.c.number + 1))
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with raising_store_errors(), self._engine.connect() as connection:
            yield connection.execution_options(is_reading=True)

    # -- new jobs

    def define_environment(self, name: str, kind: str, settings: Mapping[str, Any]) -> None:
        """Note how an environment is defined, for the coordinator; nothing is written if it is known so."""
        new = {"kind": kind, "settings": json.dumps(settings, sort_keys=True)}
        with self._reading() as connection:
            known = connection.execute(select(environments).where(environments.c.name == name)).first()
        if known is not None and {"kind": known.kind, "settings": known.settings} == new:
            return
        with self._writing() as connection:
            making = postgresql.insert if self._engine.dialect.name == "postgresql" else sqlite.insert
            statement: Any = making(environments).values(name=name, problem="", **new)
            connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=new))

    def submit(self, submissions: Sequence[Submission]) -> list[int]:
        """Add jobs, all or none; their ids."""
        with self._writing() as connection:
            ids: list[int] = []
            for one in submissions:
                ids.append(self._add(connection, one, ids))
            return ids

    def _add(self, connection: Connection, one: Submission, before: Sequence[int]) -> int:
        resources = one.resources
        values = {
            "name": one.name or f"new-{time.monotonic_ns()}-{len(before)}",
            "owner": one.owner,
            "batch": one.batch,
            "package": one.package,
            "environment": one.environment,
            "entry": one.entry.value,
            "arguments": json.dumps(list(one.arguments)),
            "run": one.run,
            "project": one.project,
            "epochs": one.epochs,
            "monitor": one.monitor,
            **resources.to_json(),
            "retries": one.retries,
            "submitted": time.time(),
            "priority": one.priority,
            "wanted": Wanted.RUN.value,
            "state": State.QUEUED.value,
        }
        try:
            (id,) = connection.execute(insert(jobs).values(**values).returning(jobs.c.id)).one()
            if one.name is None:
                connection.execute(update(jobs).where(jobs.c.id == id).values(name=f"{one.stem}-{id}"))
        except IntegrityError:
            raise StoreError(
                f"a job named `{one.name}` exists already",
                f"choose another name, or remove it: `leaven jobs clean {one.name}`",
            ) from None
        for after in dict.fromkeys(one.after):
            first = before[-after - 1] if after < 0 else after
            if connection.execute(select(jobs.c.id).where(jobs.c.id == first)).first() is None:
                raise StoreError(f"there is no job {first}")
            values = {"job": id, "after": first, "needs_success": int(not one.after_any_end)}
            connection.execute(insert(dependencies).values(**values))
        return int(id)

    # -- what users want

    def want(self, ids: Sequence[int], wanted: Wanted) -> None:
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(wanted=wanted.value))

    def retry(self, ids: Sequence[int]) -> None:
        """Ask for one more round of jobs that have ended."""
        values = {"wanted": Wanted.RUN.value, "wanted_round": jobs.c.round + 1}
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(**values))

    def set_priority(self, ids: Sequence[int], priority: int) -> None:
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(priority=priority))

    def remove(self, ids: Sequence[int]) -> list[str]:
        """Remove jobs that have ended, with their attempts; the ids of the attempts. Others are left."""
        with self._writing() as connection:
            ended = select(jobs.c.id).where(jobs.c.id.in_(ids), jobs.c.state.in_([state.value for state in ENDED]))
            chosen = [row.id for row in connection.execute(ended)]
            gone = [row.id for row in connection.execute(select(attempts.c.id).where(attempts.c.job.in_(chosen)))]
            either = or_(dependencies.c.job.in_(chosen), dependencies.c.after.in_(chosen))
            connection.execute(delete(dependencies).where(either))
            connection.execute(delete(attempts).where(attempts.c.job.in_(chosen)))
            connection.execute(delete(jobs).where(jobs.c.id.in_(chosen)))
        return gone

    # -- reading

    def jobs(self, *, states: Sequence[State] = (), limit: int | None = None) -> list[Job]:
        """Jobs in the order of their ids; with a limit, the newest."""
        query = select(jobs)
        if states:
            query = query.where(jobs.c.state.in_([state.value for state in states]))
        if limit is not None:
            query = query.order_by(jobs.c.id.desc()).limit(limit)
        with self._reading() as connection:
            found = [Job.of(row) for row in connection.execute(query)]
        return sorted(found, key=lambda job: job.id)

    def job(self, word: str) -> Job:
        """The job of that number or name."""
        wanted = jobs.c.name == word
        if word.isdecimal() and len(word) < 10:
            wanted = or_(jobs.c.id == int(word), wanted)
        with self._reading() as connection:
            row = connection.execute(select(jobs).where(wanted).order_by(jobs.c.id)).first()
        if row is None:
            raise NoSuchJob(f"there is no job `{word}`", "`leaven jobs` lists them")
        return Job.of(row)

    def attempts(self, job: int) -> list[Attempt]:
        with self._reading() as connection:
            query = select(attempts).where(attempts.c.job == job).order_by(attempts.c.number)
            return [Attempt.of(row) for row in connection.execute(query)]

    def after(self, job: int) -> list[int]:
        """The jobs that a job waits for, or waited for."""
        with self._reading() as connection:
            query = select(dependencies.c.after).where(dependencies.c.job == job).order_by(dependencies.c.after)
            return [row.after for row in connection.execute(query)]

    def unmet(self, job: int) -> list[Job]:
        """The jobs that must have succeeded before this one, and have ended otherwise."""
        ended = [state.value for state in ENDED if state is not State.SUCCEEDED]
        query = select(jobs).join(dependencies, jobs.c.id == dependencies.c.after)
        query = query.where(dependencies.c.job == job, dependencies.c.needs_success == 1, jobs.c.state.in_(ended))
        with self._reading() as connection:
            return [Job.of(row) for row in connection.execute(query)]

    def dependants(self, ids: Sequence[int]) -> list[int]:
        """The jobs that wait for some jobs and have not ended."""
        query = select(dependencies.c.job).join(jobs, jobs.c.id == dependencies.c.job)
        query = query.where(dependencies.c.after.in_(ids), jobs.c.state == State.QUEUED.value).distinct()
        with self._reading() as connection:
            return [row.job for row in connection.execute(query) if row.job not in ids]

    def counts(self) -> dict[State, int]:
        with self._reading() as connection:
            query = select(jobs.c.state, func.count()).group_by(jobs.c.state)
            return {State(state): count for state, count in connection.execute(query)}

    def packages_in_use(self) -> set[str]:
        with self._reading() as connection:
            return {row.package for row in connection.execute(select(jobs.c.package).distinct())}

    def environments(self) -> list[EnvironmentRecord]:
        with self._reading() as connection:
            query = select(environments).order_by(environments.c.name)
            return [EnvironmentRecord(**row._asdict()) for row in connection.execute(query)]

    # -- facts about the store

    def fact(self, name: str) -> str | None:
        with self._reading() as connection:
            return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()

    def set_fact(self, name: str, value: str) -> None:
        with self._writing() as connection:
            connection.execute(delete(facts).where(facts.c.name == name))
            connection.execute(insert(facts).values(name=name, value=value))


@contextmanager
def raising_store_errors() -> Iterator[None]:
    """Report what a database says in one line."""
    try:
        yield
    except IntegrityError:
        raise
    except OperationalError as problem:
        said = str(problem.orig).strip().partition("\n")[0]
        raise StoreFailed(f"the store can't be used: {said}") from None
    except DBAPIError as problem:
        raise StoreFailed(f"the store failed: {str(problem.orig).strip()}") from None
