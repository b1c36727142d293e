"""`leaven env`: which environments there are, and whether they can be used."""

from leaven.cli.job_tables import aligned
from leaven.cli.printing import echo
from leaven.jobs.checking import checks
from leaven.jobs.environments.environment import Check, Unreachable
from leaven.jobs.requests import environment_of
from leaven.jobs.settings import load_settings


def print_list() -> int:
    """Print the environments, with what they have."""
    settings = load_settings()
    rows = [["name", "kind", "has"]]
    for name, given in settings.environments.items():
        try:
            has = environment_of(settings, name).capacity()
        except Unreachable as problem:
            rows.append([name, given["kind"], f"does not answer: {problem}"])
            continue
        rows.append([name, given["kind"], str(has) if has is not None else "a queue of its own"])
    echo("\n".join(aligned(rows)))
    return 0


def check_environment(name: str) -> int:
    """Print what an environment needs, and run a tiny job in it if all of that is there."""
    is_right = True
    for found in checks(load_settings(), name):
        _print_check(found)
        is_right &= found.is_right
    echo(f"{name} can be used" if is_right else f"{name} can't be used")
    return 0 if is_right else 1


def _print_check(found: Check) -> None:
    echo(f"{'ok     ' if found.is_right else 'missing'}  {found.what}: {found.found}")
    if found.help:
        echo(f"         {found.help}")
