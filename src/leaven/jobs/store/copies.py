"""Copies of a store in a file: all rows of all tables as JSON, whichever database they come from or go to.

A copy of an older version is converted as a store is. The rows of a store are replaced in one transaction.
"""

import gzip
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from leaven.files.atomic_files import write_bytes
from leaven.jobs.states import Entry, State, Wanted
from leaven.jobs.store.failures import StoreError, raising_store_errors
from leaven.jobs.store.schema import VERSION
from leaven.jobs.store.versions import Rows, read_all, refuse_newer, upgraded, version_of, write_all

_FORMAT = "a copy of Leaven's jobs"
_MOST_BYTES = 4_000_000_000


def save_copy(engine: Engine, file: Path) -> int:
    """Write a copy of a store, as it is at one moment; the number of its jobs."""
    with raising_store_errors(), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            connection = connection.execution_options(is_reading=True)
        with connection.begin():
            version, rows = version_of(connection), read_all(connection)
    content = {"what": _FORMAT, "version": version, "tables": rows}
    write_bytes(file, gzip.compress(json.dumps(content).encode(), mtime=0))
    file.chmod(0o600)  # it has the arguments and variables of jobs in it
    return len(rows["jobs"])


def load_copy(engine: Engine, file: Path) -> int:
    """Replace what a store has by a copy; the number of jobs."""
    rows = _read(file)
    with raising_store_errors(), engine.begin() as connection:
        write_all(connection, rows)
    return len(rows["jobs"])


def _read(file: Path) -> Rows:
    try:
        with gzip.open(file) as opened:
            text = opened.read(_MOST_BYTES)
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("what") != _FORMAT:
            raise ValueError("it is something else")
        version, tables = content["version"], content["tables"]
        if not isinstance(version, int) or version < 1:
            raise ValueError("its version is not known")
        refuse_newer(version)
        rows = upgraded(tables, version)
        _check(rows)
    except OSError as problem:
        raise StoreError(f"can't read {file}: {problem.strerror or problem}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError) as problem:
        raise StoreError(f"{file} is not {_FORMAT}: {problem}", "`leaven coordinator backup` writes one") from None
    return rows


def _check(rows: Mapping[str, Any]) -> None:
    """Refuse what is not rows of plain values."""
    for name, table in rows.items():
        for row in table:
            for value in row.values():
                is_nan = isinstance(value, float) and not math.isfinite(value)
                if is_nan or not isinstance(value, str | int | float | None):
                    raise ValueError(f"a row of {name} is damaged")
    for job in rows["jobs"]:
        State(job["state"]), Wanted(job["wanted"]), Entry(job["entry"])
        for name in ("settings", "arguments", "variables", "secrets"):
            json.loads(job.get(name) or "{}")
    versions = [row["value"] for row in rows["facts"] if row["name"] == "version"]
    if versions != [str(VERSION)] or len(rows["revisions"]) != 1:
        raise ValueError("it is not complete")
