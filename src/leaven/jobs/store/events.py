"""Noting who did what with a job, in the transaction that does it."""

import time
from collections.abc import Sequence

from sqlalchemy import Connection, insert

from leaven.jobs.store.schema import events


def note(connection: Connection, jobs: Sequence[int], actor: str, what: str, detail: str = "") -> None:
    """Add an event to some jobs."""
    if jobs:
        now = time.time()
        rows = [{"job": job, "at": now, "actor": actor, "what": what, "detail": detail} for job in jobs]
        connection.execute(insert(events), rows)
