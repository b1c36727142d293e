"""The logs of a job's attempts, one after the other, also while they are written.

Logs are read in pieces, since one may be larger than the memory. Between two looks a command that follows a log sleeps,
and a server does something else: no thread belongs to a follower.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from leaven.jobs.environments.environment import PIECE, Environment, Position, Unreachable
from leaven.jobs.environments.kinds import make
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED
from leaven.jobs.store.for_users import JobStore, NoSuchJob
from leaven.jobs.store.records import Attempt, Job

_SHORTEST, _LONGEST = 0.3, 2.0  # seconds between two looks; they become more while nothing is printed


@dataclass(frozen=True)
class LogChunk:
    """Something that an attempt has printed, or why that is not known."""

    attempt: int
    text: bytes = b""
    problem: str = ""


def read_logs(
    settings: Settings, store: JobStore, job: Job, *, follows: bool = False, attempt: int | None = None
) -> Iterator[LogChunk]:
    """The log of one attempt or of all; with `follows`, until the job has ended or is paused.

    Each attempt has at least one chunk.
    """
    for each in _looks(settings, store, job, follows, attempt):
        if isinstance(each, LogChunk):
            yield each
        else:
            time.sleep(each)


async def stream_logs(
    settings: Settings, store: JobStore, job: Job, *, follows: bool = False, attempt: int | None = None
) -> AsyncIterator[LogChunk]:
    """The same, without a thread while nothing is printed."""
    looks = _looks(settings, store, job, follows, attempt)
    while (each := await asyncio.to_thread(next, looks, None)) is not None:
        if isinstance(each, LogChunk):
            yield each
        else:
            await asyncio.sleep(each)


def _looks(
    settings: Settings, store: JobStore, job: Job, follows: bool, attempt: int | None
) -> Iterator[LogChunk | float]:
    """Pieces of the logs; after each look at all attempts, the seconds to wait before another that follows."""
    environment = make(json.loads(job.settings), settings)
    positions: dict[str, Position] = {}
    problems: dict[str, str] = {}
    wait = _SHORTEST
    while True:
        try:
            job = store.job(str(job.id))  # before the log is read, so that nothing is missed
        except NoSuchJob:  # it was forgotten meanwhile
            return
        for tried in store.attempts(job.id):
            if attempt not in (None, tried.number):
                continue
            try:
                for text in _pieces(environment, tried, positions):
                    yield LogChunk(tried.number, text)
                    wait = _SHORTEST
            except (Unreachable, OSError) as problem:  # a program may have put anything in place of its log
                is_silent = isinstance(problem, Unreachable)
                fact = f"{tried.environment} does not answer" if is_silent else "its log can't be read"
                reason = f"{fact}: {problem}"
                if problems.get(tried.id) != reason:
                    yield LogChunk(tried.number, problem=reason)
                    wait = _SHORTEST
                problems[tried.id] = reason
            else:
                problems.pop(tried.id, None)
        if not follows or job.state in ENDED or job.is_paused:
            return
        yield wait
        wait = min(2 * wait, _LONGEST)


def _pieces(environment: Environment, attempt: Attempt, positions: dict[str, Position]) -> Iterator[bytes]:
    """The new pieces of the log of an attempt, at least one if it is read for the first time."""
    is_wanted = attempt.id not in positions
    while True:
        start = positions.get(attempt.id, Position())
        new, positions[attempt.id] = environment.logs(attempt.id, attempt.native, start, PIECE)
        if new or is_wanted:
            yield new
        if len(new) < PIECE:
            return
        is_wanted = False
