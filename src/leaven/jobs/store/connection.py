"""Opening a store: which database, how it is made durable, and who may lead.

One process leads a store. With SQLite it is the coordinator of the folder, with PostgreSQL the one whose only
connection has an advisory lock: if the connection breaks, the lock must be taken again before anything else.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from leaven.jobs.store.failures import StoreError, first_line, help_for, raising_store_errors
from leaven.jobs.store.files import prepare_file
from leaven.jobs.store.schema import VERSION
from leaven.jobs.store.versions import convert, create, refuse_newer, version_of
from leaven.jobs.supervisor import is_taken

_LEADING, _CREATING = 0x6C656176, 0x6C656177  # "leav": the numbers of locks, each for every schema of a database
_SCHEMA = "hashtext(current_schema())"
_HELD = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    f" AND classid = {_LEADING} AND objid::bigint = ({_SCHEMA}::bigint & 4294967295)"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_PATIENCE = {  # of the client: seconds until a server that is gone is noticed
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_LIMITS = {  # of the server: until a client that is gone is
    "statement_timeout": "60s",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_UNTIL_FREE = 10.0  # seconds in which a database notices that a connection is gone
_SECONDS = 30  # how long a writer waits for another


class AnotherLeads(Exception):
    """Another coordinator leads the store."""


def sqlite_url(file: Path) -> str:
    return f"sqlite:///{file}"


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite")


def open_engine(url: str, *, leads: bool = False) -> Engine:
    """An engine whose tables exist and have the version that this code knows; `AnotherLeads` where that is so."""
    leads = leads and not is_sqlite(url)
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        options: dict[str, Any] = {"pool_size": 1, "max_overflow": 0} if leads else {}
        if not is_sqlite(url):
            patience = {name: value for name, value in _PATIENCE.items() if name not in parsed.query}
            options |= {"pool_pre_ping": True, "connect_args": patience}
        engine = create_engine(parsed, **options)
    except (ArgumentError, NoSuchModuleError):
        help = 'for example: store = "postgresql://user@host/database"'
        raise StoreError(f"`{_without_password(url)}` is not the address of a store", help) from None
    except ModuleNotFoundError as problem:
        raise StoreError(f"{problem.name} is not installed", "pip install 'psycopg[binary]'") from None
    if is_sqlite(url):
        if parsed.database and parsed.database != ":memory:":
            prepare_file(Path(parsed.database))
        _use_sqlite(engine)
    else:
        event.listen(engine, "connect", _limit_waits)
    if leads:
        event.listen(engine, "connect", _Leadership().take)
    try:
        _prepare(engine)
    except DBAPIError as problem:
        raise StoreError(
            f"can't open the store {_without_password(url)}: {first_line(problem)}", help_for(problem)
        ) from None
    return engine


def _prepare(engine: Engine) -> None:
    """Make the tables of a new store, convert those of an older version, refuse those of a newer one."""
    if inspect(engine).has_table("facts"):
        with engine.connect() as connection:
            version = version_of(connection)
        refuse_newer(version)
        if version == VERSION:
            return
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATING}, {_SCHEMA})"))
        if not inspect(connection).has_table("facts"):  # by another process, before this one had the lock
            create(connection)
        elif (version := version_of(connection)) < VERSION:
            convert(connection, version)


def _limit_waits(connection: Any, _record: Any) -> None:
    """No statement waits for ever, and a process that hangs in a transaction keeps nobody else waiting."""
    cursor = connection.cursor()
    for name, value in _LIMITS.items():
        cursor.execute(f"SET {name} = '{value}'")
    connection.commit()
    cursor.close()


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
def opened(url: str, *, leads: bool = False) -> Iterator[Engine]:
    """An engine for as long as the context lasts."""
    engine = open_engine(url, leads=leads)
    try:
        yield engine
    finally:
        engine.dispose()


def has_leader(url: str, folder: Path) -> bool:
    """Whether a process leads a store."""
    if is_sqlite(url):
        return is_taken(lock_file(folder))
    with opened(url) as engine:
        return is_led(engine)


def is_led(engine: Engine) -> bool:
    """Whether a process leads a store in PostgreSQL."""
    with raising_store_errors(), engine.connect() as connection:
        return bool(connection.execute(_HELD).scalar())


def lock_file(folder: Path) -> Path:
    """Held by the one coordinator of a folder with an SQLite store."""
    return folder / "coordinator.lock"


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url
