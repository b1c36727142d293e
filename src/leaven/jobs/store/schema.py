"""The tables of a store, and which version of them this code knows."""

from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, MetaData, Table

from leaven.jobs.store.records import Agent, Attempt, EnvironmentRecord, Event, Job
from leaven.jobs.store.texts import Words

VERSION = 2

metadata = MetaData()


def _of(record: type, name: str, *more: Any) -> Table:
    """The table of a record, with a column for each field."""
    columns: list[Column[Any]] = []
    for field, hint in get_type_hints(record, include_extras=True).items():
        kind, *given = get_args(hint) if get_origin(hint) is Annotated else [hint]
        column = given[0] if given else Column(Integer if int in (kind, *get_args(kind)) else Float)
        column.name, column.nullable = field, NoneType in get_args(kind)
        columns.append(column)
    return Table(name, metadata, *columns, *more)


agents = _of(Agent, "agents")
environments = _of(EnvironmentRecord, "environments")
jobs = _of(Job, "jobs", Index("jobs_by_state", "state"))
attempts = _of(Attempt, "attempts")
events = _of(Event, "events")

facts = Table(  # about the store itself
    "facts",
    metadata,
    Column("name", Words(64), primary_key=True),
    Column("value", Words(4000), nullable=False),
)

revisions = Table(  # one row, counted up with everything that a coordinator should look at
    "revisions",
    metadata,
    Column("number", BigInteger, nullable=False),
)

dependencies = Table(
    "dependencies",
    metadata,
    Column("job", Integer, ForeignKey("jobs.id"), primary_key=True),
    Column("after", Integer, ForeignKey("jobs.id"), primary_key=True),
    Column("needs_success", Integer, nullable=False, default=1),
)

usage = Table(  # what the jobs of each user have used lately, which decides whose turn it is
    "usage",
    metadata,
    Column("owner", Words(100), primary_key=True),
    Column("core_seconds", Float, nullable=False, default=0.0),
    Column("at", Float, nullable=False),
)
