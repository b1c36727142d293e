"""Jobs in a terminal: the list, and the words for what a job needs and when something was."""

import json
import sys
import time
from collections.abc import Sequence

import click

from leaven.cli.printing import echo
from leaven.jobs import coordinator
from leaven.jobs.progress import progress_text
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED, State
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.store.records import Job
from leaven.terminal.duration_text import duration_text
from leaven.terminal.table import aligned

_LAST = 20  # ended jobs that are listed
_SECONDS = 1.0  # between two lists of --watch
_WIDEST = 100  # of what is said of a job


def watch(settings: Settings, store: JobStore) -> None:
    """Print the list again and again, in place."""
    is_terminal = sys.stdout.isatty()
    while True:
        lines = listed(settings, store, is_all=False)
        if is_terminal:
            click.clear()
        echo("\n".join(lines))
        time.sleep(_SECONDS)


def listed(settings: Settings, store: JobStore, *, is_all: bool) -> list[str]:
    """The lines of the list: the jobs that have not ended and the last that have, or all."""
    if is_all:
        found = store.jobs()
    else:
        going = store.jobs(states=[state for state in State if state not in ENDED])
        found = sorted([*going, *store.jobs(states=ENDED, limit=_LAST)], key=lambda job: job.id)
    if not found:
        return ["no jobs; `leaven submit RECIPE` queues one"]
    rows = [["job", "name", "state", "where", "try", "what"]]
    rows += [[str(job.id), job.name, job.shown_state, job.environment, str(job.attempts), _what(job)] for job in found]
    lines = aligned(rows)
    hidden = 0 if is_all else sum(store.counts().values()) - len(found)
    if hidden:
        lines.append(f"and {hidden:,} that have ended: `leaven jobs --all`")
    return [*lines, *_notes(settings, store, found)]


def _notes(settings: Settings, store: JobStore, found: Sequence[Job]) -> list[str]:
    """Reasons why one's jobs are not running."""
    own = store.agent_of(settings.host, settings.folder)
    lines = [
        f"{one.name} does not answer since {when(one.unreachable_since)}: {one.problem}"
        for one in store.environments()
        if one.unreachable_since is not None and one.agent == own
    ]
    if any(job.state not in ENDED and not job.is_paused for job in found):
        lines += coordinator.problems(settings, store)
    return ["", *lines] if lines else []


def _what(job: Job) -> str:
    """The progress of a job, or why it is where it is."""
    parts = [progress_text(job.progress)]
    if job.state is State.QUEUED and job.reason and job.attempts:
        parts.append(f"retries: {job.reason}")
    elif job.reason and job.state is not State.SUCCEEDED:
        parts = [job.reason]
    if job.waits and not job.is_paused:
        parts.append(job.waits)
    left = json.loads(job.progress).get("seconds_left") if job.progress and job.state is State.RUNNING else None
    text = "; ".join(filter(None, parts)) + (f", ~{duration_text(left)} left" if left else "")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def needs_text(job: Job) -> str:
    processes = f", {job.processes} processes" if job.processes > 1 else ""
    nodes = f", {job.nodes} nodes" if job.nodes > 1 else ""
    limit = f", at most {duration_text(60 * job.minutes)}" if job.minutes else ""
    return f"{job.resources.slots}{processes}{nodes}{limit}"


def when(moment: float) -> str:
    """A time as people read it; of another day, with the date."""
    is_today = time.strftime("%F", time.localtime(moment)) == time.strftime("%F")
    return time.strftime("%H:%M:%S" if is_today else "%F %H:%M", time.localtime(moment))
