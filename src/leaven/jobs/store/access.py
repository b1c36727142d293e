"""Shared by all who use a store: transactions, of which some wake coordinators, and facts about the store."""

import hashlib
import json
import os
import pwd
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from leaven.jobs.store.failures import raising_store_errors
from leaven.jobs.store.records import Agent
from leaven.jobs.store.schema import agents, events, facts, jobs, revisions

QUOTAS = "quotas"  # the fact with what users may have
_AT_ONCE = 500  # ids in a statement


def note(connection: Connection, jobs: Sequence[int], actor: str, what: str, detail: str = "") -> None:
    """Add an event to some jobs, in the transaction that changes them."""
    if jobs:
        now = time.time()
        rows = [{"job": job, "at": now, "actor": actor, "what": what, "detail": detail} for job in jobs]
        connection.execute(insert(events), rows)


def in_parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Some ids, as many at a time as fit into a statement."""
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


def process_owner() -> str:
    """The user as whom this process runs."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


class Access:
    """An engine, and its `user`: the role of the connection in PostgreSQL, the owner of the process with SQLite."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_shared = engine.dialect.name == "postgresql"  # else it is a file of one user
        # variables such as LOGNAME decide nothing: anybody can set them
        self.user = str(self.value(text("SELECT session_user"))) if self.is_shared else process_owner()

    def agent_of(self, host: str, folder: Path) -> str:
        """The coordinator that starts jobs which are submitted here: that of the same user, machine and folder of jobs.

        A file belongs to one user, whose one coordinator starts all jobs in it, whatever the machine is called today.
        """
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
        return f"{self.user}@{host}:{digest}" if self.is_shared else ""

    @contextmanager
    def writing(self, *, wakes: bool = False) -> Iterator[Connection]:
        """A transaction; one that wakes coordinators counts up the revision, by which they notice it."""
        with raising_store_errors(), self.engine.begin() as connection:
            if wakes:
                connection.execute(update(revisions).values(number=revisions.c.number + 1))
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with raising_store_errors(), self.engine.connect() as connection:
            yield connection.execution_options(is_reading=True)

    def rows(self, query: Any) -> Sequence[Any]:
        """The rows that a query finds."""
        with self.reading() as connection:
            return connection.execute(query).all()

    def value(self, query: Any) -> Any:
        """The one value that a query finds; None if there is none."""
        with self.reading() as connection:
            return connection.execute(query).scalar()

    def upsert(self, connection: Connection, table: Any, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Write a row, whether it is there or not."""
        making = postgresql.insert if self.is_shared else sqlite.insert
        statement: Any = making(table).values(**key, **values)
        connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=dict(values)))

    def change(
        self, which: Any, values: Mapping[str, Any], what: str, detail: str = "", *, wakes: bool = False
    ) -> None:
        """Change some jobs; nothing is written where there are none."""
        if self.value(select(jobs.c.id).where(which).limit(1)) is None:
            return
        with self.writing(wakes=wakes) as connection:
            changed = connection.execute(update(jobs).where(which).values(**values).returning(jobs.c.id))
            note(connection, [row.id for row in changed], self.user, what, detail)

    def revision(self) -> int:
        """How often somebody has written what others should look at."""
        return int(self.value(select(revisions.c.number)) or 0)

    def now(self) -> float:
        """The time of day of whoever keeps the store: the clocks of machines differ."""
        if not self.is_shared:
            return time.time()
        return float(self.value(select(func.extract("epoch", func.clock_timestamp()))) or 0.0)

    def agents(self) -> dict[str, Agent]:
        """The coordinators of all users, by their ids."""
        return {row.id: Agent(*row) for row in self.rows(select(agents).order_by(agents.c.id))}

    def fact(self, name: str) -> str | None:
        value: str | None = self.value(select(facts.c.value).where(facts.c.name == name))
        return value

    def quotas(self) -> dict[str, dict[str, int]]:
        """The most that users may have at a time, by their names, as set by an administrator."""
        return dict(json.loads(self.fact(QUOTAS) or "{}"))

    def set_fact(self, name: str, value: str, *, wakes: bool = False) -> None:
        with self.writing(wakes=wakes) as connection:
            self.upsert(connection, facts, {"name": name}, {"value": value})
