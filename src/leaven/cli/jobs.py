"""The commands for jobs: `submit`, `jobs`, `coordinator`, `pack`. The work is done by the room `jobs`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leaven.cli.command_group import JobCommands, reporting
from leaven.cli.printing import echo
from leaven.cli.recipe_command import RecipeCommand

if TYPE_CHECKING:
    from leaven.jobs.package import Package
    from leaven.jobs.resources import Resources
    from leaven.jobs.settings import Settings
    from leaven.jobs.store.for_users import JobStore
    from leaven.statements.options import Options

# -- submitting

_RESOURCES = (
    click.option("--gpus", type=click.IntRange(min=0), help="How many GPUs it needs. [0]"),
    click.option("--cpus", type=click.IntRange(min=1), help="How many cores it needs. [all, or those of its GPUs]"),
    click.option("--memory", metavar="SIZE", help="How much memory it needs: 16GB. [not counted]"),
    click.option("--processes", type=click.IntRange(min=1), help="How many processes train. [1, or one per GPU]"),
    click.option("--nodes", type=click.IntRange(min=1), help="On how many machines. [1]"),
    click.option("--time", "length", metavar="TIME", help="Stop each attempt after this time: 90m, 12h. [no limit]"),
    click.option("--quick", is_flag=True, help="Smoke test: two batches through every phase."),
)


def _with_resources(command: Any) -> Any:
    for option in reversed(_RESOURCES):
        command = option(command)
    return command


@click.command(cls=RecipeCommand)
@click.option("--on", "environment", default="local", metavar="ENV", help="Where it runs: `leaven env list`. [local]")
@click.option("--priority", type=int, default=0, help="Higher ones start first. [0]")
@click.option("--retries", type=click.IntRange(min=0), default=2, help="How often it is tried again. [2]")
@click.option("--after", multiple=True, metavar="JOB", help="Start when this job has succeeded.")
@click.option("--name", help="The name of the job, and of the run's folder.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable for its program.")
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="The same, with a value that is not stored.")
@click.option("--sweep", is_flag=True, help="Make a job of each trial of the recipe's `sweep`.")
@_with_resources
@reporting()
def submit(
    recipes: list[str],
    options: "Options",
    environment: str,
    priority: int,
    retries: int,
    after: tuple[str, ...],
    name: str | None,
    variables: tuple[str, ...],
    secrets: tuple[str, ...],
    sweep: bool,
    quick: bool,
    **wanted: Any,
) -> None:
    """Queue a recipe, to be trained by a coordinator.

    The coordinator starts by itself. A package, written by `leaven pack`, can be given in place of the RECIPE.
    """
    from leaven.jobs import coordinator, job_variables, requests
    from leaven.jobs.package import open_package
    from leaven.jobs.settings import load_settings
    from leaven.statements.options import Options

    settings = load_settings()
    where = requests.environment_of(settings, environment)
    wanted["cores_per_gpu"] = settings.environments[environment].get("cores_per_gpu")
    word = recipes[0]
    if name is not None and name in after:
        raise requests.RequestError(f"`{name}` can't wait for itself")
    if word.endswith(".job") and (quick or options != Options()):
        raise requests.RequestError("a package can't be changed", "pack the recipe with these options: `leaven pack`")
    if word.endswith(".job"):
        package = open_package(Path(word))
        resources = requests.resources(where, package.manifest.resources, **wanted)
    else:
        resources = requests.resources(where, **wanted)
        package = _packed(word, options, resources, is_quick=quick)
    given = job_variables.parsed(variables)
    order = requests.Order(package, environment, resources, name, priority, retries, after, sweep, given, secrets)
    store = requests.open_store(settings)
    ids = requests.submit(store, settings, [order])
    coordinator.start(settings)
    job = store.job(str(ids[-1]))
    if len(ids) > 1:
        echo(f"jobs {ids[0]} to {ids[-2]}: the trials of {job.run}")
    echo(f"job {job.id} ({job.name}) is queued on {environment}; run {job.run}")
    echo(f"to follow it: leaven jobs logs -f {job.id}")


def _packed(word: str, options: "Options", resources: "Resources", *, is_quick: bool) -> "Package":
    from leaven.cli.run import compile_recipe
    from leaven.jobs.packing import pack as packing

    source, recipe, plan = compile_recipe(word, options, requires_args=True)
    return packing(source, recipe, plan, resources, is_quick=is_quick)


@click.command(cls=RecipeCommand)
@click.option("-o", "--package", "file", type=click.Path(path_type=Path), help="Where to write it. [dogs.job]")
@_with_resources
@reporting()
def pack(recipes: list[str], options: "Options", file: Path | None, quick: bool, **wanted: Any) -> None:
    """Write a job package of a recipe.

    It has the program, the recipe and your Python files in it, and no data. The same recipe always gives the same
    bytes. `leaven submit dogs.job` runs it.
    """
    from leaven.files.atomic_files import write_bytes
    from leaven.jobs.requests import environment_of
    from leaven.jobs.requests import resources as wanted_resources
    from leaven.jobs.settings import load_settings

    resources = wanted_resources(environment_of(load_settings(), "local"), **wanted)
    package = _packed(recipes[0], options, resources, is_quick=quick)
    file = file or Path(f"{package.manifest.name}.job")
    write_bytes(file, package.content)
    echo(f"{file}: {len(package.members)} files, sha256 {package.hash}")


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
    from leaven.cli import job_tables

    settings, store = _open()
    if watch:
        job_tables.watch(settings, store)
    elif as_json:
        job_tables.print_json(store.jobs())
    else:
        job_tables.print_jobs(settings, store, is_all=is_all)


def _open() -> "tuple[Settings, JobStore]":
    from leaven.jobs.requests import open_store
    from leaven.jobs.settings import load_settings

    settings = load_settings()
    return settings, open_store(settings)


@jobs.command()
@click.argument("word", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(word: str, as_json: bool) -> None:
    """Print what is known of a job, with its attempts."""
    from leaven.cli import job_tables

    _, store = _open()
    job_tables.print_job(store, store.job(word), as_json=as_json)


@jobs.command()
@click.argument("word", metavar="JOB")
@click.option("-f", "--follow", is_flag=True, help="Print what it prints, until it has ended.")
@click.option("--attempt", type=click.IntRange(min=1), help="Only of this attempt. [all]")
def logs(word: str, follow: bool, attempt: int | None) -> int:
    """Print what a job has printed."""
    from leaven.cli import job_tables

    settings, store = _open()
    return job_tables.print_logs(settings, store, store.job(word), follow=follow, attempt=attempt)


def _command(name: str, doing: str, text: str) -> None:
    """A command that asks for something and wakes the coordinator."""

    @jobs.command(name, help=text)
    @click.argument("words", nargs=-1, required=True, metavar="JOB...")
    def ask(words: tuple[str, ...]) -> None:
        from leaven.jobs import coordinator, requests

        settings, store = _open()
        found = [store.job(word) for word in words]
        getattr(requests, name)(store, found)
        coordinator.start(settings)
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
    from leaven.jobs import coordinator

    settings, store = _open()
    job = store.job(word)
    store.set_priority([job.id], number)
    coordinator.start(settings)
    echo(f"{job.name} has priority {number}")


@jobs.command()
@click.argument("words", nargs=-1, metavar="[JOB]...")
@click.option("--all", "is_all", is_flag=True, help="All of yours that have ended and that none waits for.")
@click.option("--force", is_flag=True, help="Also jobs that have not ended: end what can be ended of them.")
def clean(words: tuple[str, ...], is_all: bool, force: bool) -> None:
    """Forget jobs that have ended, with their logs; their runs stay. Name them, or use --all."""
    from leaven.jobs import requests

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
    from leaven.jobs import coordinator as process

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
    from leaven.jobs import server
    from leaven.jobs.settings import load_settings

    server.serve(load_settings(), host, port, echo, names)


@coordinator.command()
@click.option("--renew", is_flag=True, help="Make a new one; servers that are running take it at once.")
def token(renew: bool) -> None:
    """Print the token of the HTTP API. Anyone who has it can run programs as you."""
    from leaven.jobs import server
    from leaven.jobs.settings import load_settings

    echo(server.read_token(load_settings(), renew=renew))


@coordinator.command()
def stop() -> None:
    """Stop the coordinator. Jobs that are running go on, and the next one takes them over."""
    from leaven.jobs import coordinator as process

    settings, store = _open()
    echo("stopped" if process.stop(settings, store) else "no coordinator is running")


@coordinator.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def status(as_json: bool) -> int:
    """Print whether a coordinator is running, where, and how many jobs there are."""
    from leaven.cli import job_tables

    settings, store = _open()
    return job_tables.print_status(settings, store, as_json=as_json)


@coordinator.command()
@click.argument("user", metavar="USER", required=False)
@click.option("--jobs", type=click.IntRange(min=0), help="The most jobs at a time.")
@click.option("--cpus", type=click.IntRange(min=0), help="The most cores.")
@click.option("--gpus", type=click.IntRange(min=0), help="The most GPUs.")
def quota(user: str | None, **limits: int | None) -> None:
    """Print the quotas of users, or set that of USER; `*` are all that have none of their own.

    Without a limit, the quota of USER is removed.
    """
    from leaven.jobs import requests

    _, store = _open()
    if user is not None:
        requests.set_quota(store, user, limits)
    for name, given in sorted(store.quotas().items()):
        echo(f"{name}: {', '.join(f'{number} {what}' for what, number in given.items())}")


@coordinator.command()
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Write a copy of the store of jobs to FILE, also while a coordinator is running."""
    from leaven.jobs import requests

    _, store = _open()
    count = requests.backup(store, file)
    echo(f"{file}: {count:,} job{'s' * (count != 1)}")


@coordinator.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", "replaces", is_flag=True, help="Also if the store has jobs, which are lost.")
def restore(file: Path, replaces: bool) -> None:
    """Fill the store of jobs with a copy that `leaven coordinator backup` wrote."""
    from leaven.jobs import requests

    settings, store = _open()
    count = requests.restore(store, settings, file, replaces=replaces)
    echo(f"restored {count:,} job{'s' * (count != 1)}")
