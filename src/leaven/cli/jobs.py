"""The commands `jobs`, `coordinator` and `env`. The work is done by the room `jobs`."""

import json
import os
import sys
import time
from codecs import getincrementaldecoder
from dataclasses import asdict
from pathlib import Path

import click

from leaven.cli.command_group import JobCommands
from leaven.cli.job_tables import listed, needs_text, when
from leaven.cli.job_tables import watch as watch_list
from leaven.cli.printing import echo, echo_json, echo_printed
from leaven.jobs import coordinator as process
from leaven.jobs import requests, server
from leaven.jobs.checking import checks
from leaven.jobs.environments.environment import Unreachable
from leaven.jobs.printed import read_logs
from leaven.jobs.progress import progress_text
from leaven.jobs.settings import Settings, load_settings
from leaven.jobs.states import ENDED, State, Wanted
from leaven.jobs.store.for_users import JobStore
from leaven.terminal.duration_text import duration_text
from leaven.terminal.table import aligned

# -- looking at jobs


@click.group(cls=JobCommands, invoke_without_command=True)
@click.option("--watch", is_flag=True, help="Keep the list up to date until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--all", "is_all", is_flag=True, help="List all jobs. [those that have not ended, and the last 20]")
@click.pass_context
def jobs(ctx: click.Context, watch: bool, as_json: bool, is_all: bool) -> None:
    """List jobs, or change them.

    A JOB is given by its number or its name.
    """
    if ctx.invoked_subcommand is not None:
        return
    settings, store = _open()
    if watch:
        watch_list(settings, store)
    elif as_json:
        echo("[" + ",\n".join(json.dumps(job.to_json()) for job in store.jobs()) + "]")  # each on a line
    else:
        echo("\n".join(listed(settings, store, is_all=is_all)))


def _open() -> tuple[Settings, JobStore]:
    settings = load_settings()
    return settings, requests.open_store(settings)


@jobs.command()
@click.argument("word", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(word: str, as_json: bool) -> None:
    """Print what is known of a job, with its attempts."""
    _, store = _open()
    job = store.job(word)
    if as_json:
        echo_json(store.described(job.id))
        return
    attempts, after = store.attempts(job.id), store.after(job.id)
    asked = {Wanted.STOP: ", to be cancelled", Wanted.PAUSE: ", to be paused"}.get(job.wanted, "")
    is_going = job.state not in ENDED and not job.is_paused
    rows = [
        ["job", f"{job.id} ({job.name})"],
        ["state", job.shown_state + (asked if is_going else "") + (f": {job.reason}" if job.reason else "")],
        *([["waits", job.waits]] if job.waits else []),
        ["run", job.run],
        ["where", f"{job.environment}: {needs_text(job)}"],
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


@jobs.command()
@click.argument("word", metavar="JOB")
@click.option("-f", "--follow", is_flag=True, help="Print what it prints, until it has ended.")
@click.option("--attempt", type=click.IntRange(min=1), help="Only of this attempt. [all]")
def logs(word: str, follow: bool, attempt: int | None) -> int:
    """Print what a job has printed."""
    settings, store = _open()
    job = store.job(word)
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


def _command(name: str, doing: str, text: str) -> None:
    """A command that asks for something and wakes the coordinator."""

    @jobs.command(name, help=text)
    @click.argument("words", nargs=-1, required=True, metavar="JOB...")
    def ask(words: tuple[str, ...]) -> None:
        settings, store = _open()
        found = [store.job(word) for word in words]
        getattr(requests, name)(store, found)
        process.start(settings)
        for job in found:
            echo(f"{doing} {job.name}")


_command("cancel", "cancelling", "Stop jobs for good, after they have saved.")
_command("pause", "pausing", "Stop jobs, after they have saved, until they are resumed.")
_command("resume", "resuming", "Resume paused jobs.")
_command("retry", "retrying", "Retry jobs that have failed, were lost or cancelled.")


@jobs.command()
@click.argument("word", metavar="JOB")
@click.argument("number", metavar="N", type=int)
def priority(word: str, number: int) -> None:
    """Change the priority of a job: higher ones start first. A negative one needs `--` before it."""
    settings, store = _open()
    job = store.job(word)
    store.set_priority([job.id], number)
    process.start(settings)
    echo(f"{job.name} has priority {number}")


@jobs.command()
@click.argument("words", nargs=-1, metavar="[JOB]...")
@click.option("--all", "is_all", is_flag=True, help="All of yours that have ended and that none waits for.")
@click.option("--force", is_flag=True, help="Also jobs that have not ended: end what can be ended of them.")
def clean(words: tuple[str, ...], is_all: bool, force: bool) -> None:
    """Forget jobs that have ended, with their logs; their runs stay. Name them, or use --all."""
    if bool(words) == is_all:
        raise click.UsageError("give the jobs to forget, or --all")
    if force and is_all:
        raise click.UsageError("--force needs the names of jobs")
    settings, store = _open()
    if is_all:
        count = requests.clean_all(store, settings)
    else:
        count = requests.clean(store, settings, [store.job(word) for word in words], by_force=force)
    echo(f"forgot {count} job{'s' * (count != 1)}")


# -- the coordinator


@click.group(cls=JobCommands)
def coordinator() -> None:
    """Start, stop and look at the process that runs jobs.

    It starts by itself when something is submitted, and ends when there has been nothing to do for ten minutes.
    """


@coordinator.command()
@click.option("--foreground", is_flag=True, help="Stay in this process: for services.")
def start(foreground: bool) -> None:
    """Start a coordinator that stays."""
    settings, store = _open()
    if process.is_running(settings):
        echo("a coordinator is running already")
        return
    store.close()
    if foreground:
        process.serve(settings)
        return
    process.start(settings, stays=True)
    echo(f"started; its log is {settings.log}")


@coordinator.command()
@click.option("--host", default="127.0.0.1", help="The address to listen on. [127.0.0.1: this machine alone]")
@click.option("--port", type=click.IntRange(0, 65535), default=8477, help="The port; 0 takes a free one. [8477]")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A name that a proxy has for it: jobs.example.com")
def serve(host: str, port: int, names: tuple[str, ...]) -> None:
    """Serve the HTTP API: what the commands for jobs do.

    Every request needs a token: that of LEAVEN_TOKEN, or one that is written to the folder of jobs. `leaven coordinator
    token` prints it.
    """
    server.serve(load_settings(), host, port, echo, names)


@coordinator.command()
@click.option("--renew", is_flag=True, help="Make a new one; servers that are running take it at once.")
def token(renew: bool) -> None:
    """Print the token of the HTTP API. Anyone who has it can run programs as you."""
    echo(server.read_token(load_settings(), renew=renew))


@coordinator.command()
def stop() -> None:
    """Stop the coordinator. Jobs that are running go on, and the next one takes them over."""
    settings, store = _open()
    echo("stopped" if process.stop(settings, store) else "no coordinator is running")


@coordinator.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def status(as_json: bool) -> int:
    """Print whether a coordinator is running, where, and how many jobs there are."""
    settings, store = _open()
    found, counts = process.status(settings, store), store.counts()
    problems = process.problems(settings, store)
    if as_json:
        told: dict[str, object] = {"coordinator": found, "problems": problems, "folder": str(settings.folder)}
        told["jobs"] = {state.value: count for state, count in counts.items()}
        told["environments"] = [asdict(one) for one in store.environments()]
        echo_json(told)
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


@coordinator.command()
@click.argument("user", metavar="USER", required=False)
@click.option("--jobs", type=click.IntRange(min=0), help="The most jobs at a time.")
@click.option("--cpus", type=click.IntRange(min=0), help="The most cores.")
@click.option("--gpus", type=click.IntRange(min=0), help="The most GPUs.")
def quota(user: str | None, **limits: int | None) -> None:
    """Print the quotas of users, or set that of USER; `*` are all that have none of their own.

    Without a limit, the quota of USER is removed.
    """
    _, store = _open()
    if user is not None:
        requests.set_quota(store, user, limits)
    for name, given in sorted(store.quotas().items()):
        echo(f"{name}: {', '.join(f'{number} {what}' for what, number in given.items())}")


@coordinator.command()
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Write a copy of the store of jobs to FILE, also while a coordinator is running."""
    _, store = _open()
    count = requests.backup(store, file)
    echo(f"{file}: {count:,} job{'s' * (count != 1)}")


@coordinator.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", "replaces", is_flag=True, help="Also if the store has jobs, which are lost.")
def restore(file: Path, replaces: bool) -> None:
    """Fill the store of jobs with a copy that `leaven coordinator backup` wrote."""
    settings, store = _open()
    count = requests.restore(store, settings, file, replaces=replaces)
    echo(f"restored {count:,} job{'s' * (count != 1)}")


# -- environments


@click.group(cls=JobCommands)
def env() -> None:
    """List and check the environments where jobs can run.

    They are defined in leaven.toml of the project, or in the user's configuration.
    """


@env.command("list")
def list_environments() -> None:
    """List the environments."""
    settings = load_settings()
    rows = [["name", "kind", "has"]]
    for name, given in settings.environments.items():
        try:
            capacity = requests.environment_of(settings, name).capacity()
            has = str(capacity) if capacity is not None else "a queue of its own"
        except Unreachable as problem:
            has = f"does not answer: {problem}"
        rows.append([name, given["kind"], has])
    echo("\n".join(aligned(rows)))


@env.command()
@click.argument("name", metavar="ENV")
def check(name: str) -> int:
    """Find out what is missing to use an environment, and run a tiny job in it."""
    is_right = True
    for found in checks(load_settings(), name):
        echo(f"{'ok     ' if found.is_right else 'missing'}  {found.what}: {found.found}")
        if found.help:
            echo(f"         {found.help}")
        is_right &= found.is_right
    echo(f"{name} can be used" if is_right else f"{name} can't be used")
    return 0 if is_right else 1
