"""`leaven env`: which environments there are, and whether they can be used."""

import click

from leaven.cli.command_group import JobCommands
from leaven.cli.printing import aligned, echo
from leaven.jobs.checking import checks
from leaven.jobs.environments.environment import Unreachable
from leaven.jobs.requests import environment_of
from leaven.jobs.settings import load_settings


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
            capacity = environment_of(settings, name).capacity()
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
