"""What the reconcile loop reads and writes: what is so. Each method is one transaction, or one query."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, and_, insert, or_, select, update

from leaven.jobs.states import ACTIVE, ENDED, Outcome, State, Wanted
from leaven.jobs.store.for_users import raising_store_errors
from leaven.jobs.store.records import Attempt, EnvironmentRecord, Job
from leaven.jobs.store.schema import attempts, dependencies, environments, facts, jobs, revisions


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued job, as far as the order of starting depends on it."""

    id: int
    owner: str
    batch: str
    environment: str
    priority: int
    cpus: int
    memory: int
    gpus: int
    delay: float
    attempts: int


_WAITING = ("id", "owner", "batch", "environment", "priority", "cpus", "memory", "gpus", "delay", "attempts")


class LoopStore:
    """Jobs, for the one process that leads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with raising_store_errors(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with raising_store_errors(), self._engine.connect() as connection:
            yield connection.execution_options(is_reading=True)

    # -- reading

    def revision(self) -> int:
        """How often users have written."""
        with self._reading() as connection:
            return int(connection.execute(select(revisions.c.number)).scalar() or 0)

    def fact(self, name: str) -> str | None:
        with self._reading() as connection:
            return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()

    def active(self) -> list[tuple[Job, Attempt]]:
        """The jobs that have an attempt under way."""
        with self._reading() as connection:
            query = select(jobs).where(jobs.c.state.in_([state.value for state in ACTIVE])).order_by(jobs.c.id)
            found = [Job.of(row) for row in connection.execute(query)]
            ids = [job.attempt for job in found]
            rows = connection.execute(select(attempts).where(attempts.c.id.in_(ids))) if ids else ()
            by_id = {row.id: Attempt.of(row) for row in rows}
        return [(job, by_id[str(job.attempt)]) for job in found]

    def waiting(self) -> list[Waiting]:
        """The queued jobs that may start now, as far as other jobs are concerned."""
        first = jobs.alias("first")
        blocking = dependencies.join(first, dependencies.c.after == first.c.id)
        unmet = select(dependencies.c.job).select_from(blocking).where(first.c.state != State.SUCCEEDED.value)
        unmet = unmet.where(
            or_(dependencies.c.needs_success == 1, first.c.state.not_in([state.value for state in ENDED]))
        )
        query = select(*(jobs.c[name] for name in _WAITING)).where(
            jobs.c.state == State.QUEUED.value, jobs.c.wanted == Wanted.RUN.value, jobs.c.id.not_in(unmet)
        )
        with self._reading() as connection:
            return [Waiting(*row) for row in connection.execute(query)]

    def job(self, id: int) -> Job:
        with self._reading() as connection:
            return Job.of(connection.execute(select(jobs).where(jobs.c.id == id)).one())

    def environments(self) -> dict[str, EnvironmentRecord]:
        with self._reading() as connection:
            found = connection.execute(select(environments))
            return {row.name: EnvironmentRecord(**row._asdict()) for row in found}

    def is_idle(self) -> bool:
        """Whether no job is under way or could start without a user."""
        unfinished = [state.value for state in (State.QUEUED, *ACTIVE)]
        query = select(jobs.c.id).where(
            or_(
                and_(jobs.c.state.in_(unfinished), jobs.c.wanted != Wanted.PAUSE.value),
                jobs.c.state.in_([state.value for state in ACTIVE]),
                jobs.c.wanted_round > jobs.c.round,
            )
        )
        with self._reading() as connection:
            return connection.execute(query.limit(1)).first() is None

    # -- what users asked for and needs no environment

    def cancel_queued(self) -> None:
        """End queued jobs that are not wanted any more."""
        values = {"state": State.CANCELLED.value, "ended": time.time(), "reason": "cancelled"}
        self._change((jobs.c.state == State.QUEUED.value) & (jobs.c.wanted == Wanted.STOP.value), values)

    def begin_rounds(self) -> None:
        """Queue ended jobs again that a user wants to be tried once more."""
        values = {
            "state": State.QUEUED.value,
            "round": jobs.c.wanted_round,
            "failures": 0,
            "delay": 0.0,
            "reason": "",
            "ended": None,
        }
        ended = jobs.c.state.in_([state.value for state in ENDED])
        self._change(ended & (jobs.c.wanted_round > jobs.c.round), values)

    def cancel_dependants(self) -> int:
        """End queued jobs after one that has ended without success."""
        failed = [state.value for state in ENDED if state is not State.SUCCEEDED]
        first = jobs.alias("first")
        query = (
            select(dependencies.c.job, first.c.name, first.c.state)
            .join(first, dependencies.c.after == first.c.id)
            .join(jobs, dependencies.c.job == jobs.c.id)
            .where(
                jobs.c.state == State.QUEUED.value,
                jobs.c.wanted_round == jobs.c.round,
                dependencies.c.needs_success == 1,
                first.c.state.in_(failed),
                first.c.wanted_round == first.c.round,
            )
        )
        with self._reading() as connection:
            found = {
                row.job: f"{row.name}, which it waited for, {_ended_text(row.state)}"
                for row in connection.execute(query)
            }
        for job, reason in found.items():
            self._end_job(job, State.CANCELLED, reason)
        return len(found)

    def _end_job(self, job: int, state: State, reason: str) -> None:
        values = {"state": state.value, "reason": reason, "ended": time.time()}
        self._change((jobs.c.id == job) & (jobs.c.state == State.QUEUED.value), values)

    def _change(self, which: Any, values: Mapping[str, Any]) -> None:
        """Change some jobs; nothing is written where there are none."""
        with self._reading() as connection:
            if connection.execute(select(jobs.c.id).where(which).limit(1)).first() is None:
                return
        with self._writing() as connection:
            connection.execute(update(jobs).where(which).values(**values))

    # -- attempts

    def begin_attempt(self, job: int, attempt: str, number: int, environment: str, devices: Sequence[int]) -> bool:
        """Record an attempt before it is submitted; False if the job may not start any more."""
        shown = ",".join(map(str, devices))
        with self._writing() as connection:
            may_start = (jobs.c.id == job) & (jobs.c.state == State.QUEUED.value) & (jobs.c.wanted == Wanted.RUN.value)
            values = {"state": State.STARTING.value, "attempt": attempt, "attempts": number, "reason": ""}
            if not connection.execute(update(jobs).where(may_start).values(**values)).rowcount:
                return False
            row = {"id": attempt, "job": job, "number": number, "environment": environment, "devices": shown}
            connection.execute(insert(attempts).values(**row, submitted=time.time()))
        return True

    def note_native(self, attempt: str, native: str) -> None:
        with self._writing() as connection:
            connection.execute(update(attempts).where(attempts.c.id == attempt).values(native=native))

    def note_running(self, job: Job, attempt: str) -> None:
        now = time.time()
        with self._writing() as connection:
            values = {"state": State.RUNNING.value, "started": job.started or now}
            connection.execute(update(jobs).where(jobs.c.id == job.id).values(**values))
            connection.execute(update(attempts).where(attempts.c.id == attempt).values(started=now))

    def note_stopping(self, job: int) -> None:
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id == job).values(state=State.STOPPING.value))

    def note_reason(self, job: int, reason: str) -> None:
        """Note why a queued job does not start."""
        with self._writing() as connection:
            which = (jobs.c.id == job) & (jobs.c.state == State.QUEUED.value)
            connection.execute(update(jobs).where(which).values(reason=reason))

    def note_progress(self, job: int, progress: str) -> None:
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id == job).values(progress=progress))

    def end_attempt(
        self,
        job: int,
        attempt: str,
        outcome: Outcome,
        *,
        exit_code: int | None,
        attempt_reason: str,
        state: State,
        reason: str,
        failures: int,
        delay: float,
    ) -> None:
        """Record how an attempt ended, and what that means for its job: in one transaction, so that it counts once."""
        now = time.time()
        is_over = state in ENDED
        with self._writing() as connection:
            ended = {"ended": now, "outcome": outcome.value, "exit_code": exit_code, "reason": attempt_reason}
            connection.execute(update(attempts).where(attempts.c.id == attempt).values(**ended))
            values = {
                "state": state.value,
                "attempt": None,
                "reason": reason,
                "failures": failures,
                "delay": delay,
                "ended": now if is_over else None,
            }
            current = (jobs.c.id == job) & (jobs.c.attempt == attempt)
            connection.execute(update(jobs).where(current).values(**values))

    # -- environments, and the coordinator itself

    def mark_environment(self, name: str, problem: str) -> None:
        """Note since when an environment does not answer; an empty problem means that it does."""
        since = time.time() if problem else None
        with self._writing() as connection:
            which = environments.c.name == name
            connection.execute(update(environments).where(which).values(unreachable_since=since, problem=problem))


def _ended_text(state: str) -> str:
    return {"failed": "failed", "cancelled": "was cancelled", "lost": "was lost"}[state]
