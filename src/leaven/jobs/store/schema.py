"""The tables of a store, and which version of them this code knows.

What a user wants and what is so are different columns: the first are written by users alone, the second by the
reconcile loop alone, so that neither overwrites the other.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

VERSION = 1

metadata = MetaData()

facts = Table(  # about the store itself
    "facts",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

revisions = Table(  # one row, counted up with everything that a user writes
    "revisions",
    metadata,
    Column("number", BigInteger, nullable=False),
)

environments = Table(
    "environments",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("kind", String(32), nullable=False),  # by users, at submit
    Column("settings", Text, nullable=False),
    Column("unreachable_since", Float),  # by the loop
    Column("problem", Text, nullable=False, default=""),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    # by users, at submit
    Column("name", String(200), nullable=False, unique=True),
    Column("owner", String(100), nullable=False),
    Column("batch", String(64), nullable=False, default=""),  # what was submitted together, such as a sweep
    Column("package", String(64), nullable=False),
    Column("environment", String(100), ForeignKey("environments.name"), nullable=False),
    Column("entry", String(32), nullable=False),
    Column("arguments", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("epochs", Integer),
    Column("monitor", String(200), nullable=False, default=""),
    Column("cpus", Integer, nullable=False),
    Column("memory", BigInteger, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("processes", Integer, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("minutes", Float),
    Column("retries", Integer, nullable=False),
    Column("submitted", Float, nullable=False),
    # by users, at any time
    Column("priority", Integer, nullable=False),
    Column("wanted", String(16), nullable=False),
    Column("wanted_round", Integer, nullable=False, default=1),  # one more with every `retry`
    # by the loop
    Column("state", String(16), nullable=False),
    Column("round", Integer, nullable=False, default=1),
    Column("attempt", String(64)),  # the current one
    Column("attempts", Integer, nullable=False, default=0),
    Column("failures", Integer, nullable=False, default=0),  # of this round, which use up retries
    Column("delay", Float, nullable=False, default=0.0),  # seconds to wait before the next attempt
    Column("reason", Text, nullable=False, default=""),
    Column("progress", Text, nullable=False, default=""),
    Column("started", Float),
    Column("ended", Float),
    Index("jobs_by_state", "state"),
)

dependencies = Table(
    "dependencies",
    metadata,
    Column("job", Integer, ForeignKey("jobs.id"), primary_key=True),
    Column("after", Integer, ForeignKey("jobs.id"), primary_key=True),
    Column("needs_success", Integer, nullable=False, default=1),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("job", Integer, ForeignKey("jobs.id"), nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("environment", String(100), nullable=False),
    Column("native", String(200), nullable=False, default=""),  # the environment's own id
    Column("devices", String(200), nullable=False, default=""),
    Column("submitted", Float, nullable=False),
    Column("started", Float),
    Column("ended", Float),
    Column("outcome", String(16)),
    Column("exit_code", Integer),
    Column("reason", Text, nullable=False, default=""),
)
