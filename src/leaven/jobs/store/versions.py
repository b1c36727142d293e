"""Versions of a store's tables: this one is created, older ones are converted, newer ones refused.

A store is converted by reading all its rows, making the tables anew and writing the rows into them, in one transaction:
after a crash, it is as it was.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, MetaData, insert, select, text

from leaven.jobs.store.failures import StoreError
from leaven.jobs.store.guards import guard
from leaven.jobs.store.schema import VERSION, facts, metadata, revisions

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def version_of(connection: Connection) -> int:
    """The version of the tables that are there."""
    return int(connection.execute(select(facts.c.value).where(facts.c.name == "version")).scalar() or 0)


def refuse_newer(version: int) -> None:
    if version > VERSION:
        raise StoreError(
            f"the store was written by a newer version of Leaven (tables {version}, this one knows {VERSION})",
            "upgrade Leaven, or use another store: `store` in [jobs] of leaven.toml",
        )


def create(connection: Connection) -> None:
    """Make the tables of a new store."""
    _make_tables(connection)
    connection.execute(insert(facts).values(name="version", value=str(VERSION)))
    connection.execute(insert(facts).values(name="store", value=os.urandom(3).hex()))
    connection.execute(insert(revisions).values(number=0))


def convert(connection: Connection, version: int) -> None:
    """Bring the tables of an older version to this one."""
    write_all(connection, upgraded(read_all(connection), version))


def upgraded(rows: Rows, version: int) -> Rows:
    """The rows of a version as they are in this one."""
    for step in range(version, VERSION):
        rows = _STEPS[step](rows)
    return rows


def read_all(connection: Connection) -> Rows:
    """All rows of all tables, whatever their version."""
    tables = MetaData()
    tables.reflect(connection, only=lambda name, _: name in _TABLES)
    return {
        table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
        for table in tables.sorted_tables
    }


def write_all(connection: Connection, rows: Rows) -> None:
    """Replace the tables by new ones that have these rows."""
    before = MetaData()
    before.reflect(connection, only=lambda name, _: name in _TABLES)
    before.drop_all(connection)
    _make_tables(connection)
    for table in metadata.sorted_tables:
        if old := rows.get(table.name):
            known = set(table.c.keys())
            connection.execute(insert(table), [{name: row[name] for name in row.keys() & known} for row in old])
    if connection.dialect.name == "postgresql":
        for name in ("jobs", "events"):  # the next id comes after those that are there
            last = f"coalesce((SELECT max(id) FROM {name}), 0) + 1"
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), {last}, false)"))


def _make_tables(connection: Connection) -> None:
    metadata.create_all(connection)
    if connection.dialect.name == "postgresql":
        guard(connection)


def _to_second(rows: Rows) -> Rows:
    """Version 2: settings belong to jobs; whether an environment is reached, to an agent."""
    settings = {row["name"]: row["settings"] for row in rows["environments"]}
    jobs = [{**row, "settings": settings[row["environment"]]} for row in rows["jobs"]]
    about = [{**row, "value": "2"} if row["name"] == "version" else row for row in rows["facts"]]
    return {**rows, "environments": [], "jobs": jobs, "facts": about}


_STEPS = {1: _to_second}
_TABLES = frozenset(metadata.tables)
