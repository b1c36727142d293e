"""The commands that make jobs of recipes: `submit` and `pack`. The work is done by the room `jobs`."""

from pathlib import Path
from typing import Any

import click

from leaven.cli.command_group import reporting
from leaven.cli.printing import echo
from leaven.cli.recipe_command import RecipeCommand
from leaven.cli.run import compile_recipe
from leaven.files.atomic_files import write_bytes
from leaven.jobs import coordinator, job_variables, packing, requests
from leaven.jobs.package import Package, open_package
from leaven.jobs.resources import Resources
from leaven.jobs.settings import load_settings
from leaven.statements.options import Options

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
    options: Options,
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
    settings = load_settings()
    word = recipes[0]
    if name is not None and name in after:
        raise requests.RequestError(f"`{name}` can't wait for itself")
    if word.endswith(".job") and (quick or options != Options()):
        raise requests.RequestError("a package can't be changed", "pack the recipe with these options: `leaven pack`")
    if word.endswith(".job"):
        package = open_package(Path(word))
        resources = requests.resources(settings, environment, package.manifest.resources, **wanted)
    else:
        resources = requests.resources(settings, environment, **wanted)
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


def _packed(word: str, options: Options, resources: Resources, *, is_quick: bool) -> Package:
    source, recipe, plan = compile_recipe(word, options, requires_args=True)
    return packing.pack(source, recipe, plan, resources, is_quick=is_quick)


@click.command(cls=RecipeCommand)
@click.option("-o", "--package", "file", type=click.Path(path_type=Path), help="Where to write it. [dogs.job]")
@_with_resources
@reporting()
def pack(recipes: list[str], options: Options, file: Path | None, quick: bool, **wanted: Any) -> None:
    """Write a job package of a recipe.

    It has the program, the recipe and your Python files in it, and no data. The same recipe always gives the same
    bytes. `leaven submit dogs.job` runs it.
    """
    resources = requests.resources(load_settings(), "local", **wanted)
    package = _packed(recipes[0], options, resources, is_quick=quick)
    file = file or Path(f"{package.manifest.name}.job")
    write_bytes(file, package.content)
    echo(f"{file}: {len(package.members)} files, sha256 {package.hash}")
