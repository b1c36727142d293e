"""The user of a store: the role of the connection in PostgreSQL, the owner of the process with SQLite.

Variables such as LOGNAME decide nothing: anybody can set them.
"""

import hashlib
import os
from pathlib import Path

from sqlalchemy import Engine, text


def user_of(engine: Engine) -> str:
    """The user that jobs belong to which are submitted through an engine."""
    if engine.dialect.name != "postgresql":
        return process_owner()
    with engine.connect() as connection:
        return str(connection.execute(text("SELECT session_user")).scalar())


def process_owner() -> str:
    """The user as whom this process runs."""
    if not hasattr(os, "geteuid"):
        return os.environ.get("USERNAME", "")
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def agent_of(engine: Engine, host: str, folder: Path) -> str:
    """The coordinator that starts jobs which are submitted here: that of the same user, machine and folder of jobs.

    A file belongs to one user, whose one coordinator starts all jobs in it, whatever the machine is called today.
    """
    if engine.dialect.name != "postgresql":
        return ""
    return f"{user_of(engine)}@{host}:{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"
