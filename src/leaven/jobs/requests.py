"""What users may ask for: submit, cancel, pause, resume, retry, priority, clean. The commands and others call these."""

import getpass
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from leaven.formats import run_folder, sweep_folder
from leaven.formats.byte_sizes import parse_bytes
from leaven.formats.installed_versions import leaven_version
from leaven.jobs.environments.environment import Environment, Unreachable
from leaven.jobs.environments.kinds import KINDS
from leaven.jobs.package import Package, package_file, refuse_other_version, unpack
from leaven.jobs.problem import Problem
from leaven.jobs.resources import Resources, Slots, missing
from leaven.jobs.settings import Settings
from leaven.jobs.states import ACTIVE, ENDED, Entry, State, Wanted
from leaven.jobs.store.connection import StoreError, is_sqlite, open_engine
from leaven.jobs.store.for_users import JobStore, Submission
from leaven.jobs.store.records import Job

RETRIES = 2
_LENGTH = re.compile(r"(\d+(?:\.\d+)?) *(m|h|d)(?:in|inutes?|ours?|ays?)?", re.ASCII)
_MINUTES = {"m": 1.0, "h": 60.0, "d": 1440.0}


class RequestError(Problem):
    """What was asked for can't be done."""


@dataclass(frozen=True)
class Order:
    """A package to be run, and how. `after` are jobs, by id or name, also of other orders that come with it."""

    package: Package
    environment: str = "local"
    resources: Resources = field(default_factory=Resources)
    name: str | None = None
    priority: int = 0
    retries: int = RETRIES
    after: Sequence[str] = ()
    is_sweep: bool = False  # whether each trial becomes a job


def open_store(settings: Settings) -> JobStore:
    """The store of the settings; its folder is created."""
    if is_sqlite(settings.store):
        try:
            settings.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise StoreError(f"can't create {settings.folder}: {problem.strerror}", "set LEAVEN_JOBS") from None
    return JobStore(open_engine(settings.store))


def environment_of(settings: Settings, name: str) -> Environment:
    """An environment that is configured."""
    given = settings.environments.get(name)
    if given is None:
        help = f"there are: {', '.join(settings.environments)}; others are defined in leaven.toml"
        raise RequestError(f"there is no environment `{name}`", help)
    return KINDS[given["kind"]].make(given, settings.attempts, settings.wake)


def _capacity(environment: Environment) -> Slots | None:
    """What an environment has, for users."""
    try:
        return environment.capacity()
    except Unreachable as problem:
        raise RequestError(str(problem)) from None


def usual_resources(environment: Environment, gpus: int) -> Resources:
    """Default resources: all cores, or those that belong to its GPUs."""
    has = _capacity(environment)
    if has is None:
        return Resources(gpus=gpus)
    share = gpus / has.gpus if gpus and has.gpus else 1.0
    return Resources(cpus=max(1, int(has.cpus * min(1.0, share))), gpus=gpus)


def resources(
    environment: Environment,
    packed: Resources | None = None,
    *,
    gpus: int | None = None,
    cpus: int | None = None,
    memory: str | None = None,
    processes: int | None = None,
    nodes: int | None = None,
    length: str | None = None,
) -> Resources:
    """What a job gets, by what is said: `memory` as `16GB`, `length` as `12h`.

    What is not said is what the job was packed with, or the default. If GPUs are, each has one process.
    """
    size = parse_bytes(memory) if memory else 0
    if size is None:
        raise RequestError(f"`{memory}` must be a size of memory, such as 16GB")
    other = packed or usual_resources(environment, gpus or 0)
    count = processes or (other.processes if gpus is None else max(1, gpus))
    return Resources(
        cpus=cpus or max(count, other.cpus),
        memory=size or other.memory,
        gpus=other.gpus if gpus is None else gpus,
        processes=count,
        nodes=nodes or other.nodes,
        minutes=_minutes(length) if length else other.minutes,
    )


def _minutes(length: str) -> float:
    found = _LENGTH.fullmatch(length.strip().lower())
    if not found or not float(found[1]):
        raise RequestError(f"`{length}` must be a length of time, such as 90m or 12h")
    return float(found[1]) * _MINUTES[found[2]]


# -- submitting


def submit(store: JobStore, settings: Settings, orders: Sequence[Order]) -> list[int]:
    """Add jobs, all or none; their ids, those of the trials of a sweep included."""
    for order in orders:
        _refuse_impossible(settings, order)
    orders = _sorted(orders)
    for name in dict.fromkeys(order.environment for order in orders):
        given = settings.environments[name]
        store.define_environment(name, given["kind"], given)
    made: list[Path] = []
    submissions: list[Submission] = []
    places: dict[str, int] = {}  # of the orders that have names
    try:
        for order in orders:
            after = [places[word] if word in places else store.job(word).id for word in order.after]
            order.package.save(settings.packages)
            run = _new_run(settings, order)
            made.append(run)
            submissions += _submissions(order, run, after, len(submissions))
            if order.name is not None:
                places[order.name] = -len(submissions)
        return store.submit(submissions)
    except BaseException:
        for run in made:
            shutil.rmtree(run, ignore_errors=True)
        raise


def _refuse_impossible(settings: Settings, order: Order) -> None:
    refuse_other_version(order.package.manifest, leaven_version(), f"package {order.package.manifest.name}")
    if order.name is not None and (wrong := run_folder.wrong_name(order.name)):
        raise RequestError(wrong.replace("of a run", "of a job"))
    if order.name is not None and order.name.isdecimal():
        raise RequestError(f"`{order.name}` can't be the name of a job: a number is the id of one")
    has = _capacity(environment_of(settings, order.environment))
    if has is not None and (lacking := missing(order.resources.slots, has)):
        raise RequestError(f"{order.environment} can't run this job: {lacking}", f"{order.environment} has {has}")
    if has is not None and order.resources.nodes > 1:
        raise RequestError(f"{order.environment} can't run this job: it is a single machine")
    has_sweep = order.package.manifest.entry is Entry.SWEEP
    if order.is_sweep and not has_sweep:
        raise RequestError("the recipe has no `sweep`", "submit it without --sweep")
    if has_sweep and not order.is_sweep and max(order.resources.nodes, order.resources.processes) > 1:
        told = "one job trains the trials of a sweep one after the other, each in one process on one machine"
        raise RequestError(told, "--sweep makes a job of each trial, which may have several processes and nodes")


def _sorted(orders: Sequence[Order]) -> list[Order]:
    """Orders such that those that others wait for come first."""
    names = {order.name: order for order in orders if order.name is not None}
    if len(names) < sum(order.name is not None for order in orders):
        raise RequestError("two of the jobs have the same name")
    waits = {order.name: [word for word in order.after if word in names] for order in names.values()}
    try:
        ranks = {name: rank for rank, name in enumerate(TopologicalSorter(waits).static_order())}
    except CycleError as problem:
        circle = " → ".join(reversed(problem.args[1]))
        raise RequestError(f"these jobs wait for each other: {circle}") from None
    return sorted(orders, key=lambda order: ranks.get(order.name, -1 if not order.after else len(ranks)))


def _new_run(settings: Settings, order: Order) -> Path:
    """The folder of the run, which no other run has."""
    manifest = order.package.manifest
    if not manifest.output:
        folder = settings.runs / f"{manifest.name}-{os.urandom(4).hex()}"
        folder.mkdir(parents=True)
        return folder
    try:
        return run_folder.new_folder(Path(manifest.output), order.name, is_quick=manifest.is_quick).absolute()
    except FileExistsError as problem:
        raise RequestError(f"{problem.filename} exists already", "choose another name") from None


def _submissions(order: Order, run: Path, after: Sequence[int], before: int) -> list[Submission]:
    """The jobs of an order: one, or those of a sweep's trials and one that finishes the best."""
    manifest = order.package.manifest
    one = Submission(
        name=order.name,
        stem=manifest.name,
        owner=_user(),
        package=order.package.hash,
        environment=order.environment,
        entry=manifest.entry,
        arguments=manifest.arguments,
        run=str(run),
        project=manifest.project,
        resources=order.resources,
        retries=order.retries,
        priority=order.priority,
        after=after,
        epochs=manifest.epochs,
        monitor=manifest.monitor,
    )
    if not order.is_sweep:
        return [one]
    unpack(order.package, run)
    trials = sweep_folder.read_trials(run).trials
    each = replace(one, name=None, stem=f"{manifest.name}-trial", entry=Entry.PROGRAM, batch=run.name)
    jobs = [replace(each, run=str(run / trial.name), arguments=trial.flags) for trial in trials]
    waits = [-(before + number) for number in range(1, len(jobs) + 1)]
    single = replace(order.resources, processes=1, nodes=1)  # the best is finished by one process
    end = replace(one, entry=Entry.END_SWEEP, arguments=(), resources=single, batch=run.name)
    end = replace(end, after=waits, after_any_end=True)
    return [*jobs, end]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid()) if hasattr(os, "getuid") else ""


# -- what is wanted of jobs


def cancel(store: JobStore, jobs: Sequence[Job]) -> None:
    """Let jobs stop for good; what they have trained is kept."""
    _refuse(jobs, ENDED, "has ended already")
    store.want([job.id for job in jobs], Wanted.STOP)


def pause(store: JobStore, jobs: Sequence[Job]) -> None:
    """Stop jobs, after they have saved, until they are resumed."""
    _refuse(jobs, ENDED, "has ended already")
    store.want([job.id for job in jobs], Wanted.PAUSE)


def resume(store: JobStore, jobs: Sequence[Job]) -> None:
    """Resume paused jobs."""
    _refuse(jobs, ENDED, "has ended already", "`leaven jobs retry` starts it again")
    for job in jobs:
        if job.wanted is not Wanted.PAUSE:
            raise RequestError(f"{job.name} is not paused")
    store.want([job.id for job in jobs], Wanted.RUN)


def retry(store: JobStore, jobs: Sequence[Job]) -> None:
    """Retry jobs that have ended, from their last checkpoint."""
    ids = [job.id for job in jobs]
    for job in jobs:
        if job.state not in ENDED:
            raise RequestError(f"{job.name} has not ended: it is {job.shown_state}")
        if job.state is State.SUCCEEDED:
            raise RequestError(f"{job.name} has succeeded", f"to train further: leaven resume {job.run} --epochs +10")
        for before in (one for one in store.unmet(job.id) if one.id not in ids):
            help = f"retry both: `leaven jobs retry {before.name} {job.name}`"
            raise RequestError(f"{job.name} comes after {before.name}, which is {before.shown_state}", help)
    store.retry(ids)


def clean(store: JobStore, settings: Settings, jobs: Sequence[Job]) -> int:
    """Forget jobs that have ended, with their logs and packages; their runs stay. How many were removed."""
    _refuse(jobs, (State.QUEUED, *ACTIVE), "has not ended", "cancel it first: `leaven jobs cancel`")
    ids = [job.id for job in jobs]
    waiting = store.dependants(ids)
    if waiting:
        raise RequestError(f"job {waiting[0]} waits for one of these", "cancel it first: `leaven jobs cancel`")
    for attempt in store.remove(ids):
        shutil.rmtree(settings.attempts / attempt, ignore_errors=True)
    used = store.packages_in_use()
    for package in {job.package for job in jobs} - used:
        package_file(settings.packages, package).unlink(missing_ok=True)
    return len(ids)


def _refuse(jobs: Sequence[Job], states: Sequence[State], reason: str, help: str = "") -> None:
    for job in jobs:
        if job.state in states:
            raise RequestError(f"{job.name} {reason}: it is {job.shown_state}", help)
