"""Opening a store: which database, how it is made durable, and who may lead.

One process leads a store: it runs the reconcile loop. With SQLite it holds a lock on a file, with PostgreSQL an
advisory lock of its only connection: if the connection breaks, the lock must be taken again before anything else.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from leaven.jobs.file_locks import is_held
from leaven.jobs.problem import Problem
from leaven.jobs.store.schema import VERSION, facts, metadata, revisions
from leaven.jobs.supervisor import take

_LEADING, _CREATING = 0x6C656176, 0x6C656177  # "leav": the numbers of locks, each for every schema of a database
_SCHEMA = "hashtext(current_schema())"
_HELD = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    f" AND classid = {_LEADING} AND objid::bigint = ({_SCHEMA}::bigint & 4294967295)"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_TRIES = 10
_UNTIL_FREE = 10.0  # seconds in which a database notices that a connection is gone
_SECONDS = 30  # how long a writer waits for another


class StoreError(Problem):
    """A store can't be used."""


class StoreFailed(StoreError):
    """A store that was opened does not answer as it should."""


class AnotherLeads(Exception):
    """Another coordinator leads the store."""


def sqlite_url(file: Path) -> str:
    return f"sqlite:///{file}"


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite")


def open_engine(url: str, *, leads: bool = False) -> Engine:
    """An engine whose tables exist and have the version that this code knows."""
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        options: dict[str, Any] = {"pool_size": 1, "max_overflow": 0} if leads else {}
        engine = create_engine(parsed, pool_pre_ping=not is_sqlite(url), **options)
    except (ArgumentError, NoSuchModuleError):
        help = 'for example: store = "postgresql://user@host/database"'
        raise StoreError(f"`{_without_password(url)}` is not the address of a store", help) from None
    except ModuleNotFoundError as problem:
        raise StoreError(f"{problem.name} is not installed", "pip install 'psycopg[binary]'") from None
    if is_sqlite(url):
        _use_sqlite(engine)
    elif leads:
        event.listen(engine, "connect", _Leadership().take)
    try:
        _create(engine)
    except DBAPIError as problem:
        raise StoreError(f"can't open the store {_without_password(url)}: {_first_line(problem)}") from None
    return engine


def _create(engine: Engine) -> None:
    """Create the tables, once; refuse those of a newer version."""
    if not inspect(engine).has_table("facts"):
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATING}, {_SCHEMA})"))
            metadata.create_all(connection)
            found = connection.execute(select(facts.c.value).where(facts.c.name == "version")).scalar()
            if found is None:
                connection.execute(insert(facts).values(name="version", value=str(VERSION)))
                connection.execute(insert(facts).values(name="store", value=os.urandom(3).hex()))
                connection.execute(insert(revisions).values(number=0))
    with engine.connect() as connection:
        version = int(connection.execute(select(facts.c.value).where(facts.c.name == "version")).scalar() or 0)
    if version > VERSION:
        raise StoreError(
            f"the store was written by a newer version of Leaven (tables {version}, this one knows {VERSION})",
            "upgrade Leaven, or use another store: `store` in [jobs] of leaven.toml",
        )


def _use_sqlite(engine: Engine) -> None:
    """Write-ahead log, synced with every commit; a transaction that writes begins by taking the lock."""

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_SECONDS * 1000}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _began(connection: Connection) -> None:
        is_reading = connection.get_execution_options().get("is_reading")
        connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


class _Leadership:
    """A connection of the one that leads holds the lock; SQLAlchemy makes a new one when the old one broke."""

    def __init__(self) -> None:
        self._was_held = False

    def take(self, connection: Any, _record: Any) -> None:
        """Take the lock. The server may take some seconds to notice that the connection that had it is gone."""
        until = time.monotonic() + (_UNTIL_FREE if self._was_held else 0.0)
        while not self._try(connection):
            if time.monotonic() >= until:
                raise AnotherLeads
            time.sleep(0.1)
        self._was_held = True

    def _try(self, connection: Any) -> bool:
        cursor = connection.cursor()
        cursor.execute(f"SELECT pg_try_advisory_lock({_LEADING}, {_SCHEMA})")
        (has_it,) = cursor.fetchone()
        connection.commit()
        cursor.close()
        return bool(has_it)


@contextmanager
def leading(url: str, folder: Path) -> Iterator[Engine]:
    """Lead a store for as long as the context lasts; `AnotherLeads` if another process does."""
    if not is_sqlite(url):
        engine = open_engine(url, leads=True)
        try:
            yield engine
        finally:
            engine.dispose()
        return
    descriptor = os.open(_lock_file(folder), os.O_RDWR | os.O_CREAT, 0o600)
    if not take(descriptor, _TRIES):
        os.close(descriptor)
        raise AnotherLeads
    try:
        engine = open_engine(url)
        try:
            yield engine
        finally:
            engine.dispose()
    finally:
        os.close(descriptor)


def has_leader(url: str, folder: Path) -> bool:
    """Whether a process leads a store."""
    if is_sqlite(url):
        return is_held(_lock_file(folder))
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return bool(connection.execute(_HELD).scalar())
    finally:
        engine.dispose()


def _lock_file(folder: Path) -> Path:
    return folder / "coordinator.lock"


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


def _first_line(problem: Exception) -> str:
    return str(getattr(problem, "orig", problem)).strip().partition("\n")[0]
