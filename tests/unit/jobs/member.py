"""A member of a team at work, as a process of that user: keeps a coordinator running, and does what it is told by lines
of JSON. It ends, with the coordinator, when there are no more lines."""

import contextlib
import json
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.unit.jobs.plain_jobs import plain
from tests.unit.jobs.test_chaos import PROGRAM

from leaven.jobs import coordinator, requests
from leaven.jobs.package import open_package
from leaven.jobs.resources import Resources
from leaven.jobs.settings import Settings, load_settings
from leaven.jobs.store.failures import NameTaken, StoreError
from leaven.jobs.store.for_users import JobStore, NoSuchJob

_LOOK = 0.3  # seconds between two looks at whether the coordinator is there


def main(projects: Sequence[str]) -> None:
    settings = {Path(folder).name: load_settings(Path(folder)) for folder in projects}
    first = next(iter(settings.values()))
    while True:
        coordinator.start(first, stays=True)
        if not select.select([sys.stdin], [], [], _LOOK)[0]:
            continue
        if not (line := sys.stdin.readline()):
            break
        told = json.loads(line)
        if "cancel" in told:
            insist(first, lambda store, told=told: cancel(store, told["cancel"]))  # type: ignore[misc]
        else:
            submit(settings[told["project"]], told["orders"])
        print("done", flush=True)
    insist(first, lambda store: coordinator.stop(first, store, 60.0))


def insist(settings: Settings, act: Callable[[JobStore], object]) -> None:
    """Do something with the store, again and again while it can't be used."""
    while True:
        try:
            with contextlib.closing(requests.open_store(settings)) as store:
                act(store)
        except NoSuchJob:
            raise
        except StoreError:
            time.sleep(_LOOK)
        else:
            return


def submit(settings: Settings, orders: Sequence[Mapping[str, Any]]) -> None:
    """Submit jobs once, whenever the store fails: those of a name can't be there twice."""
    tries = []

    def act(store: JobStore) -> None:
        tries.append(store)
        try:
            requests.submit(store, settings, [order_of(one) for one in orders])
        except NameTaken:
            if len(tries) == 1:
                raise

    insist(settings, act)


def order_of(one: Mapping[str, Any]) -> requests.Order:
    given = {key: value for key, value in one.items() if key not in ("program", "package")}
    package = open_package(Path(one["package"])) if "package" in one else plain(PROGRAM, *one["program"])
    return requests.Order(package, resources=Resources(cpus=1), **given)


def cancel(store: JobStore, name: str) -> None:
    with contextlib.suppress(requests.RequestError):  # it has ended
        requests.cancel(store, [store.job(name)])


if __name__ == "__main__":
    main(sys.argv[1:])
