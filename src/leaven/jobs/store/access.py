"""Shared by all who use a store: transactions, of which some wake coordinators, and facts about the store."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from leaven.jobs.store.failures import raising_store_errors
from leaven.jobs.store.identity import user_of
from leaven.jobs.store.records import Agent
from leaven.jobs.store.schema import agents, events, facts, jobs, revisions

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


class Access:
    """An engine, and who uses it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        with raising_store_errors():
            self.user = user_of(engine)

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

    def upsert(self, connection: Connection, table: Any, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Write a row, whether it is there or not."""
        making = postgresql.insert if self.engine.dialect.name == "postgresql" else sqlite.insert
        statement: Any = making(table).values(**key, **values)
        connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=dict(values)))

    def change(
        self, which: Any, values: Mapping[str, Any], what: str, detail: str = "", *, wakes: bool = False
    ) -> None:
        """Change some jobs; nothing is written where there are none."""
        with self.reading() as connection:
            if connection.execute(select(jobs.c.id).where(which).limit(1)).first() is None:
                return
        with self.writing(wakes=wakes) as connection:
            changed = connection.execute(update(jobs).where(which).values(**values).returning(jobs.c.id))
            note(connection, [row.id for row in changed], self.user, what, detail)

    def revision(self) -> int:
        """How often somebody has written what others should look at."""
        with self.reading() as connection:
            return int(connection.execute(select(revisions.c.number)).scalar() or 0)

    def now(self) -> float:
        """The time of day of whoever keeps the store: the clocks of machines differ."""
        if self.engine.dialect.name != "postgresql":
            return time.time()
        with self.reading() as connection:
            return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar() or 0.0)

    def agents(self) -> dict[str, Agent]:
        """The coordinators of all users, by their ids."""
        with self.reading() as connection:
            return {row.id: Agent.of(row) for row in connection.execute(select(agents).order_by(agents.c.id))}

    def fact(self, name: str) -> str | None:
        with self.reading() as connection:
            return connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar()

    def set_fact(self, name: str, value: str, *, wakes: bool = False) -> None:
        with self.writing(wakes=wakes) as connection:
            self.upsert(connection, facts, {"name": name}, {"value": value})
