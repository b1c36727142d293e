"""Jobs in a terminal: the list, one job with its attempts or its logs, the status of the coordinator."""

import json
import os
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import asdict

import click

from leaven.cli.printing import aligned, echo, echo_printed
from leaven.jobs import coordinator
from leaven.jobs.printed import read_logs
from leaven.jobs.progress import progress_text
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED, State, Wanted
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.store.records import Job
from leaven.terminal.duration_text import duration_text

_LAST = 20  # ended jobs that are listed
_STARTING = 2.0  # seconds
_SECONDS = 1.0  # between two lists of --watch
_WIDEST = 100  # of what is said of a job


def print_jobs(settings: Settings, store: JobStore, *, is_all: bool) -> None:
    """Print the jobs that have not ended and the last that have, or all."""
    echo("\n".join(_lines(settings, store, is_all=is_all)))


def watch(settings: Settings, store: JobStore) -> None:
    """Print the list again and again, in place."""
    is_terminal = sys.stdout.isatty()
    while True:
        lines = _lines(settings, store, is_all=False)
        if is_terminal:
            click.clear()
        echo("\n".join(lines))
        time.sleep(_SECONDS)


def _lines(settings: Settings, store: JobStore, *, is_all: bool) -> list[str]:
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
    """What keeps one's jobs from running."""
    own = store.agent_of(settings.host, settings.folder)
    lines = [
        f"{one.name} does not answer since {when(one.unreachable_since)}: {one.problem}"
        for one in store.environments()
        if one.unreachable_since is not None and one.agent == own
    ]
    if any(job.state not in ENDED and not job.is_paused for job in found):
        until = time.monotonic() + _STARTING  # the coordinator that a submit has started takes a moment
        while coordinator.is_starting(settings) and time.monotonic() < until:
            time.sleep(0.05)
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


def print_json(found: Sequence[Job]) -> None:
    """Print jobs as JSON, each in a line."""
    echo("[" + ",\n".join(json.dumps(job.to_json()) for job in found) + "]")


def print_job(store: JobStore, job: Job, *, as_json: bool) -> None:
    """Print a job with its attempts."""
    if as_json:
        echo(json.dumps(store.described(job.id), indent=1))
        return
    attempts, after = store.attempts(job.id), store.after(job.id)
    asked = {Wanted.STOP: ", to be cancelled", Wanted.PAUSE: ", to be paused"}.get(job.wanted, "")
    is_going = job.state not in ENDED and not job.is_paused
    rows = [
        ["job", f"{job.id} ({job.name})"],
        ["state", job.shown_state + (asked if is_going else "") + (f": {job.reason}" if job.reason else "")],
        *([["waits", job.waits]] if job.waits else []),
        ["run", job.run],
        ["where", f"{job.environment}: {_needs(job)}"],
        ["priority", str(job.priority)],
        ["retries", f"{min(job.failures, job.retries)} of {job.retries} used"],
        ["submitted", f"{when(job.submitted)} by {job.owner}"],
        *([["after", ", ".join(map(str, after))]] if after else []),
        *([["progress", progress_text(job.progress)]] if job.progress else []),
        ["package", job.package],
    ]
    echo("\n".join(aligned(rows)))
    if attempts:
        table = [["attempt", "started", "time", "outcome", "why"]]
        for one in attempts:
            end = one.ended or time.time()
            took = duration_text(end - one.started) if one.started else ""
            outcome = one.outcome.value if one.outcome else "under way"
            table.append([str(one.number), when(one.started) if one.started else "", took, outcome, one.reason])
        echo("\n" + "\n".join(aligned(table)))
    told = [[when(one.at), one.actor, one.what, one.detail] for one in store.events(job.id)]
    echo("\n" + "\n".join(aligned([["when", "who", "what", ""], *told])))


def _needs(job: Job) -> str:
    processes = f", {job.processes} processes" if job.processes > 1 else ""
    nodes = f", {job.nodes} nodes" if job.nodes > 1 else ""
    limit = f", at most {duration_text(60 * job.minutes)}" if job.minutes else ""
    return f"{job.resources.slots}{processes}{nodes}{limit}"


def when(moment: float) -> str:
    """A time as people read it; of another day, with the date."""
    is_today = time.strftime("%F", time.localtime(moment)) == time.strftime("%F")
    return time.strftime("%H:%M:%S" if is_today else "%F %H:%M", time.localtime(moment))


def print_status(settings: Settings, store: JobStore, *, as_json: bool) -> int:
    """Print whether there is a coordinator; the exit code is 1 where there is none."""
    found, counts = coordinator.status(settings, store), store.counts()
    problems = coordinator.problems(settings, store)
    if as_json:
        told: dict[str, object] = {"coordinator": found, "problems": problems, "folder": str(settings.folder)}
        told["jobs"] = {state.value: count for state, count in counts.items()}
        told["environments"] = [asdict(one) for one in store.environments()]
        echo(json.dumps(told, indent=1))
        return 0 if found is not None else 1
    if found is None:
        echo("no coordinator is running")
    else:
        since = f" since {when(float(str(found['since'])))}" if "since" in found else ""
        leads = "" if found["leads"] else "; another one leads the store"
        echo(f"running{since} on {found.get('host', '?')}, process {found.get('pid', '?')}{leads}")
        for problem in problems:
            echo(problem)
    shown = ", ".join(f"{counts[state]:,} {state.value}" for state in State if state in counts)
    echo(f"jobs: {shown or 'none'}\nfolder: {settings.folder}")
    return 0 if found is not None else 1


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
        if text := decoder.decode(chunk.text):
            sys.stdout.flush()
            echo_printed(text)
        if not os.isatty(1):
            sys.stdout.flush()
    job = store.job(str(job.id))
    if not shown:
        echo(f"{job.name} has not been started: it is {job.shown_state}", err=True)
    if follow:
        echo(f"{job.name}: {job.shown_state}{f' ({job.reason})' if job.reason else ''}", err=True)
    return int(follow and job.state in ENDED and job.state is not State.SUCCEEDED)
