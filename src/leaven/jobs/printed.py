"""What the attempts of a job have printed, one after the other, also while they print."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

from leaven.jobs.environments.environment import Unreachable
from leaven.jobs.environments.kinds import KINDS
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.store.records import Job

_SECONDS = 0.3  # between two looks


@dataclass(frozen=True)
class LogChunk:
    """Something that an attempt has printed, or why that is not known."""

    attempt: int
    text: bytes = b""
    problem: str = ""


def read_logs(
    settings: Settings, store: JobStore, job: Job, *, follows: bool = False, attempt: int | None = None
) -> Iterator[LogChunk]:
    """What is printed, of one attempt or all; with `follows`, until the job has ended or is paused.

    Each attempt has at least one chunk.
    """
    known = {one.name: one for one in store.environments()}[job.environment]
    environment = KINDS[known.kind].make(json.loads(known.settings), settings.attempts, settings.wake)
    offsets: dict[str, int] = {}
    problems: dict[str, str] = {}
    while True:
        job = store.job(str(job.id))  # before the log is read, so that nothing is missed
        for one in store.attempts(job.id):
            if attempt not in (None, one.number):
                continue
            is_first = one.id not in offsets
            try:
                new = environment.logs(one.id, one.native, offsets.setdefault(one.id, 0))
            except Unreachable as problem:
                told = f"{one.environment} does not answer: {problem}"
                if problems.get(one.id) != told:
                    yield LogChunk(one.number, problem=told)
                problems[one.id] = told
                continue
            problems.pop(one.id, None)
            offsets[one.id] += len(new)
            if new or is_first:
                yield LogChunk(one.number, new)
        if not follows or job.state in ENDED or job.is_paused:
            return
        time.sleep(_SECONDS)
