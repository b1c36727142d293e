"""The store as the reconcile loop uses it, for the jobs of one agent: it records their states and attempts.

Each method is one transaction, or one query. Decisions about the jobs of all agents are the leader's (`for_leader.py`).
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, and_, delete, func, or_, select, update

from leaven.jobs.states import ACTIVE, ENDED, NOT_SEEN, State, Wanted
from leaven.jobs.store.access import Access, note
from leaven.jobs.store.failures import NotAllowed
from leaven.jobs.store.records import Attempt, Event, Job
from leaven.jobs.store.schema import agents, attempts, environments, events, jobs


class AfterAttempt(NamedTuple):
    """The state of a job after an attempt, its failures so far, and the seconds to wait before the next attempt."""

    state: State
    failures: int
    delay: float = 0.0


_MOST_EVENTS = 1000  # of a job
_UNFINISHED = (State.QUEUED, *ACTIVE)


class LoopStore(Access):
    """The jobs of one agent; if it does not lead, what it writes wakes the one that does."""

    def __init__(self, engine: Engine, agent: str = "", *, leads: bool = True) -> None:
        super().__init__(engine)
        self.agent = agent
        self.leads = leads
        self._mine = jobs.c.agent == agent
        if agent:  # an agent never acts for another user, whatever somebody has written
            self._mine &= jobs.c.owner == self.user

    def _writing(self) -> AbstractContextManager[Connection]:
        return self.writing(wakes=not self.leads)

    # -- reading

    def active(self) -> list[tuple[Job, Attempt]]:
        """The jobs that have an attempt under way."""
        with self.reading() as connection:
            query = select(jobs).where(self._mine, jobs.c.state.in_(ACTIVE))
            running = [Job(*row) for row in connection.execute(query.order_by(jobs.c.id))]
            ids = [job.attempt for job in running]
            rows = connection.execute(select(attempts).where(attempts.c.id.in_(ids))) if ids else ()
            by_id = {row.id: Attempt(*row) for row in rows}
        return [(job, by_id[str(job.attempt)]) for job in running]

    def targets(self) -> list[tuple[str, str]]:
        """The environments of jobs that have not ended, with their settings."""
        query = select(jobs.c.environment, jobs.c.settings).where(self._mine, jobs.c.state.in_(_UNFINISHED)).distinct()
        return [(row.environment, row.settings) for row in self.rows(query)]

    def is_idle(self) -> bool:
        """Whether no job is under way or could start without a user."""
        query = select(jobs.c.id).where(
            self._mine,
            or_(
                and_(jobs.c.state.in_(_UNFINISHED), jobs.c.wanted != Wanted.PAUSE),
                jobs.c.state.in_(ACTIVE),
                jobs.c.wanted_round > jobs.c.round,
            ),
        )
        return self.value(query.limit(1)) is None

    def endings(self, last: int) -> list[tuple[Event, Job]]:
        """The endings of jobs after an event, the first hundred."""
        query = select(events, jobs).join(jobs, jobs.c.id == events.c.job).where(self._mine, events.c.id > last)
        query = query.where(events.c.what.in_(ENDED)).order_by(events.c.id).limit(100)
        of_event = len(events.c)
        return [(Event(*row[:of_event]), Job(*row[of_event:])) for row in self.rows(query)]

    def forget_events(self, most: int = _MOST_EVENTS) -> None:
        """Forget the oldest events of jobs that have many: one may be paused and resumed by a program for years."""
        count = select(events.c.job).join(jobs, jobs.c.id == events.c.job).where(self._mine)
        for (job,) in self.rows(count.group_by(events.c.job).having(func.count() > most)):
            newest = select(events.c.id).where(events.c.job == job).order_by(events.c.id.desc()).limit(most)
            with self.writing() as connection:
                connection.execute(delete(events).where(events.c.job == job, events.c.id.not_in(newest)))

    def last_event(self) -> int:
        return int(self.value(select(func.max(events.c.id))) or 0)

    # -- requests that need no environment

    def cancel_queued(self) -> None:
        """End queued jobs that are not wanted any more."""
        values = {"state": State.CANCELLED, "ended": time.time(), "reason": "cancelled", "waits": ""}
        which = self._mine & (jobs.c.state == State.QUEUED) & (jobs.c.wanted == Wanted.STOP)
        self.change(which, values, "cancelled")

    def adopt(self) -> None:
        """Take over the jobs of a store that is older than agents: it had one coordinator, which ran all of them."""
        if self.agent:
            with suppress(NotAllowed):  # an administrator's will
                self.change(jobs.c.agent == "", {"agent": self.agent, "owner": self.user}, "adopted")

    def begin_rounds(self) -> None:
        """Queue ended jobs again that a user wants to be tried once more."""
        values = {"state": State.QUEUED, "round": jobs.c.wanted_round, "failures": 0, "delay": 0.0}
        which = self._mine & jobs.c.state.in_(ENDED) & (jobs.c.wanted_round > jobs.c.round)
        self.change(which, {**values, "reason": "", "waits": NOT_SEEN, "ended": None}, "queued")

    # -- attempts

    def note_waits(self, ids: Sequence[int], reason: str) -> None:
        """Note why attempts don't go on."""
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(waits=reason))

    def note_native(self, attempt: str, native: str) -> None:
        with self._writing() as connection:
            connection.execute(update(attempts).where(attempts.c.id == attempt).values(native=native))

    def note_running(self, job: Job, attempt: str) -> None:
        now = time.time()
        with self._writing() as connection:
            values = {"state": State.RUNNING, "started": job.started or now, "waits": ""}
            connection.execute(update(jobs).where(jobs.c.id == job.id).values(**values))
            connection.execute(update(attempts).where(attempts.c.id == attempt).values(started=now))
            note(connection, [job.id], self.user, "running")

    def note_stopping(self, job: int) -> None:
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id == job).values(state=State.STOPPING, waits=""))
            note(connection, [job], self.user, "stopping")

    def note_progress(self, job: int, progress: str) -> None:
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.id == job).values(progress=progress))

    def end_attempt(self, job: Job, attempt: Attempt, after: AfterAttempt) -> None:
        """Record the end of an attempt, as it is now, and the state of its job after it: in one transaction."""
        now, outcome, why = time.time(), attempt.outcome, attempt.reason
        with self._writing() as connection:
            ended = {"ended": now, "outcome": outcome, "exit_code": attempt.exit_code, "reason": why}
            connection.execute(update(attempts).where(attempts.c.id == attempt.id).values(**ended))
            waits = NOT_SEEN if after.state is State.QUEUED and job.wanted is Wanted.RUN else ""
            values = {**after._asdict(), "attempt": None, "delayed": now, "waits": waits}
            values |= {"reason": "" if after.state is State.SUCCEEDED else why}
            values |= {"ended": now if after.state in ENDED else None}
            current = (jobs.c.id == job.id) & (jobs.c.attempt == attempt.id)
            if connection.execute(update(jobs).where(current).values(**values)).rowcount:
                note(connection, [job.id], self.user, after.state, f"attempt {outcome}{f': {why}' if why else ''}")

    # -- the agent itself, and its environments

    def note_agent(self, about: Mapping[str, Any], capacity: Mapping[str, Any], *, is_news: bool) -> None:
        """Record that the agent is alive, and the capacity of its environments."""
        values = {**about, "owner": self.user, "capacity": capacity, "seen": self.now()}
        with self.writing(wakes=is_news and not self.leads) as connection:
            self.upsert(connection, agents, {"id": self.agent}, values)

    def mark_environment(self, name: str, problem: str) -> None:
        """Note since when an environment does not answer; an empty problem means that it does."""
        values = {"unreachable_since": time.time() if problem else None, "problem": problem}
        with self._writing() as connection:
            self.upsert(connection, environments, {"agent": self.agent, "name": name}, values)
