"""`leaven jobs logs`: what the attempts of a job have printed, one after the other, also while they print."""

import json
import os
import sys
import time

import click

from leaven.jobs.environments.environment import Environment, Unreachable
from leaven.jobs.environments.kinds import KINDS
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED, State
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.store.records import Attempt, Job

_SECONDS = 0.3  # between two looks


def print_logs(settings: Settings, store: JobStore, job: Job, *, follow: bool, attempt: int | None) -> int:
    """Print the logs; following a job that fails ends with 1."""
    known = {one.name: one for one in store.environments()}[job.environment]
    environment = KINDS[known.kind].make(json.loads(known.settings), settings.attempts, settings.wake)
    offsets: dict[str, int] = {}
    while True:
        job = store.job(str(job.id))  # before the log is read, so that nothing is missed
        attempts = [one for one in store.attempts(job.id) if attempt in (None, one.number)]
        for one in attempts:
            _print_new(environment, one, offsets, is_headed=attempt is None and len(store.attempts(job.id)) > 1)
        if not follow or job.state in ENDED or job.is_paused:
            break
        time.sleep(_SECONDS)
    if not attempts:
        click.echo(f"{job.name} has not been started: it is {job.shown_state}", err=True)
    if follow:
        click.echo(f"{job.name}: {job.shown_state}{f' ({job.reason})' if job.reason else ''}", err=True)
    return int(follow and job.state in ENDED and job.state is not State.SUCCEEDED)


def _print_new(environment: Environment, attempt: Attempt, offsets: dict[str, int], *, is_headed: bool) -> None:
    is_first = attempt.id not in offsets
    try:
        new = environment.logs(attempt.id, attempt.native, offsets.setdefault(attempt.id, 0))
    except Unreachable as problem:
        click.echo(f"{attempt.environment} does not answer: {problem}", err=True)
        return
    if is_first and is_headed:
        click.echo(f"--- attempt {attempt.number}", err=True)
    offsets[attempt.id] += len(new)
    if new:
        sys.stdout.flush()
        text = new.decode(errors="replace")
        click.echo(text, nl=False)
    if not os.isatty(1):
        sys.stdout.flush()
