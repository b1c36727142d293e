"""`leaven env`: which environments there are, and whether they can be used."""

import shutil
import tempfile
import time
from pathlib import Path

import click

from leaven import __version__
from leaven.cli.job_tables import aligned
from leaven.formats import run_folder, status_line
from leaven.jobs.environments.environment import Check, Environment, Refused, Status, Task, Unreachable
from leaven.jobs.package import Manifest, make_package, unpack
from leaven.jobs.requests import environment_of
from leaven.jobs.resources import Resources
from leaven.jobs.settings import load_settings
from leaven.jobs.states import Outcome

_SAID = "hello from the tiny job"
_PROGRAM = f'print("{_SAID}")\n'
_SECONDS = 120.0  # for the tiny job


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
    click.echo("\n".join(aligned(rows)))
    return 0


def check_environment(name: str) -> int:
    """Print what an environment needs, and run a tiny job in it if all of that is there."""
    settings = load_settings()
    environment = environment_of(settings, name)
    is_right = True
    try:
        for found in environment.check():
            _print_check(found)
            is_right &= found.is_right
        if is_right:
            settings.attempts.mkdir(parents=True, exist_ok=True)
            tiny = _tiny_job(environment, settings.attempts)
            _print_check(tiny)
            is_right = tiny.is_right
    except Unreachable as problem:
        click.echo(f"{name} does not answer: {problem}")
        is_right = False
    click.echo(f"{name} can be used" if is_right else f"{name} can't be used")
    return 0 if is_right else 1


def _print_check(found: Check) -> None:
    click.echo(f"{'ok     ' if found.is_right else 'missing'}  {found.what}: {found.found}")
    if found.help:
        click.echo(f"         {found.help}")


def _tiny_job(environment: Environment, attempts: Path) -> Check:
    """Submit a program of one line, and wait for its end and its log."""
    attempt = f"check-{time.time_ns():x}"
    with tempfile.TemporaryDirectory(prefix="check-", dir=attempts) as place:
        run = Path(place, "run")
        unpack(make_package(Manifest("check", __version__, "plain"), {run_folder.PROGRAM: _PROGRAM.encode()}), run)
        began = time.monotonic()
        task = Task(attempt, attempts / attempt, run, run, "plain", (), Resources(minutes=_SECONDS / 60))
        try:
            native = environment.submit(task)
        except Refused as problem:
            return Check("a tiny job", False, str(problem))
        with status_line.doing("running a tiny job…"):
            status = _wait(environment, attempt, native, began + _SECONDS)
        said = environment.logs(attempt, native, 0).decode(errors="replace").strip()
    shutil.rmtree(attempts / attempt, ignore_errors=True)
    took = f"{time.monotonic() - began:.1f} s"
    if status.outcome is Outcome.SUCCEEDED and said == _SAID:
        return Check("a tiny job", True, f"ran in {took}")
    return Check("a tiny job", False, status.reason or f"{status.phase} after {took}", said)


def _wait(environment: Environment, attempt: str, native: str, until: float) -> Status:
    while True:
        status = environment.poll({attempt: native})[attempt]
        if status.phase == "ended":
            return status
        if time.monotonic() > until:
            environment.cancel(attempt, native, 1.0)
            return status
        time.sleep(0.1)
