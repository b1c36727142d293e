"""`leaven jobs logs`: what the attempts of a job have printed."""

import os
import sys
from codecs import getincrementaldecoder

from leaven.cli.printing import echo, echo_printed
from leaven.jobs.printed import read_logs
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED, State
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.store.records import Job


def print_logs(settings: Settings, store: JobStore, job: Job, *, follow: bool, attempt: int | None) -> int:
    """Print the logs; following a job that fails ends with 1."""
    shown: set[int] = set()
    decoder = getincrementaldecoder("utf-8")(errors="replace")  # a chunk may end within a character
    for chunk in read_logs(settings, store, job, follows=follow, attempt=attempt):
        if chunk.problem:
            echo(chunk.problem, err=True)
            continue
        if chunk.attempt not in shown and attempt is None and len(store.attempts(job.id)) > 1:
            echo(f"--- attempt {chunk.attempt}", err=True)
        shown.add(chunk.attempt)
        _print(decoder.decode(chunk.text))
    job = store.job(str(job.id))
    if not shown:
        echo(f"{job.name} has not been started: it is {job.shown_state}", err=True)
    if follow:
        echo(f"{job.name}: {job.shown_state}{f' ({job.reason})' if job.reason else ''}", err=True)
    return int(follow and job.state in ENDED and job.state is not State.SUCCEEDED)


def _print(text: str) -> None:
    if text:
        sys.stdout.flush()
        echo_printed(text)
    if not os.isatty(1):
        sys.stdout.flush()
