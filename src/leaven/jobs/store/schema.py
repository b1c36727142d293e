"""The tables of a store, and which version of them this code knows.

What a user wants, what may start and what is so are different columns: the first are written by users alone, the second
by the one coordinator that leads, the third by the coordinator of the job's owner, its agent, so that none overwrites
another's.
"""

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

from leaven.jobs.store.texts import Words

VERSION = 2

metadata = MetaData()

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

agents = Table(  # the coordinators that start jobs, each for one user on one machine
    "agents",
    metadata,
    Column("id", Words(400), primary_key=True),
    Column("owner", Words(100), nullable=False),
    Column("host", Words(200), nullable=False),
    Column("folder", Words(4000), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", Words(64), nullable=False),
    Column("capacity", Text, nullable=False, default="{}"),  # JSON: what each of its environments has
    Column("since", Float, nullable=False),
    Column("seen", Float, nullable=False),
)

environments = Table(  # whether an agent reaches them
    "environments",
    metadata,
    Column("agent", Words(400), primary_key=True),
    Column("name", Words(100), primary_key=True),
    Column("unreachable_since", Float),
    Column("problem", Words(2000), nullable=False, default=""),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    # by users, at submit
    Column("name", Words(200), nullable=False, unique=True),
    Column("owner", Words(100), nullable=False),
    Column("agent", Words(400), nullable=False, default=""),  # which coordinator starts it
    Column("batch", Words(200), nullable=False, default=""),  # what was submitted together, such as a sweep
    Column("package", Words(64), nullable=False),
    Column("environment", Words(100), nullable=False),
    Column("settings", Text, nullable=False, default="{}"),  # JSON: of the environment, at the submit
    Column("entry", Words(32), nullable=False),
    Column("arguments", Text, nullable=False),  # JSON
    Column("variables", Text, nullable=False, default="{}"),  # JSON: of the program's environment
    Column("secrets", Text, nullable=False, default="[]"),  # JSON: names of variables whose values are not stored
    Column("run", Words(4000), nullable=False),
    Column("project", Words(4000), nullable=False),
    Column("epochs", Integer),
    Column("monitor", Words(200), nullable=False, default=""),
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
    Column("wanted", Words(16), nullable=False),
    Column("wanted_round", Integer, nullable=False, default=1),  # one more with every `retry`
    # by coordinators
    Column("state", Words(16), nullable=False),
    Column("round", Integer, nullable=False, default=1),
    Column("attempt", Words(64)),  # the current one
    Column("attempts", Integer, nullable=False, default=0),
    Column("preempted", Words(64)),  # the attempt that must make room for others
    Column("failures", Integer, nullable=False, default=0),  # of this round, which use up retries
    Column("delay", Float, nullable=False, default=0.0),  # seconds to wait before the next attempt
    Column("delayed", Float, nullable=False, default=0.0),  # since when
    Column("reason", Words(2000), nullable=False, default=""),  # why the last attempt ended
    Column("waits", Words(500), nullable=False, default=""),  # why the next one does not run yet
    Column("progress", Text, nullable=False, default=""),  # JSON
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
    Column("id", Words(64), primary_key=True),
    Column("job", Integer, ForeignKey("jobs.id"), nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("environment", Words(100), nullable=False),
    Column("native", Words(200), nullable=False, default=""),  # the environment's own id
    Column("devices", Words(200), nullable=False, default=""),
    Column("submitted", Float, nullable=False),
    Column("started", Float),
    Column("ended", Float),
    Column("outcome", Words(16)),
    Column("exit_code", Integer),
    Column("reason", Words(2000), nullable=False, default=""),
)

events = Table(  # who did what with a job, written together with what was done
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job", Integer, ForeignKey("jobs.id"), nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("actor", Words(100), nullable=False),
    Column("what", Words(32), nullable=False),
    Column("detail", Words(1000), nullable=False, default=""),
)

usage = Table(  # what the jobs of each user have used lately, which decides whose turn it is
    "usage",
    metadata,
    Column("owner", Words(100), primary_key=True),
    Column("core_seconds", Float, nullable=False, default=0.0),
    Column("at", Float, nullable=False),
)
