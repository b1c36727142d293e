"""The requests of users: submit, cancel, pause, resume, retry, clean. Commands, the HTTP API and others call these."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from leaven.formats import run_folder, sweep_folder
from leaven.formats.installed_versions import leaven_version
from leaven.jobs import job_variables
from leaven.jobs.environments.environment import Environment, Unreachable
from leaven.jobs.environments.kinds import make
from leaven.jobs.package import Package, package_file, refuse_other_version, unpack
from leaven.jobs.resources import Resources, Slots, minutes_of, missing, out_of_range
from leaven.jobs.settings import Settings
from leaven.jobs.states import ACTIVE, ENDED, Entry, State, Wanted
from leaven.jobs.store.access import QUOTAS
from leaven.jobs.store.connection import has_leader, open_engine
from leaven.jobs.store.copies import load_copy, save_copy
from leaven.jobs.store.failures import NameTaken, StoreError, StoreFailed
from leaven.jobs.store.for_users import JobStore, Submission
from leaven.jobs.store.records import Job
from leaven.jobs.supervisor import DISK_IS_FULL
from leaven.terminal.byte_sizes import parse_bytes
from leaven.terminal.problem import Problem

RETRIES = 2
_LARGEST = 1_000_000  # priority
_FORCE = 10.0  # seconds in which a job that is forgotten by force may end
_AT_ONCE = 500  # jobs that are forgotten in one transaction


class RequestError(Problem):
    """A request that can't be fulfilled."""


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
    variables: Mapping[str, str] = field(default_factory=dict)  # of the program's environment
    secrets: Sequence[str] = ()  # names of variables whose values are looked up when it starts


def open_store(settings: Settings) -> JobStore:
    """The store of the settings; its folder is created."""
    try:
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise StoreError(f"can't create {settings.folder}: {problem.strerror}", "set LEAVEN_JOBS") from None
    return JobStore(open_engine(settings.store))


def environment_of(settings: Settings, name: str) -> Environment:
    """An environment that is configured."""
    configured = settings.environments.get(name)
    if configured is None:
        help = f"there are: {', '.join(settings.environments)}; others are defined in leaven.toml"
        raise RequestError(f"there is no environment `{name}`", help)
    return make(configured, settings)


def _capacity(environment: Environment) -> Slots | None:
    try:
        return environment.capacity()
    except Unreachable as problem:
        raise RequestError(str(problem)) from None


def _usual_resources(environment: Environment, gpus: int) -> Resources:
    """Default resources: all cores, or those that belong to its GPUs."""
    has = _capacity(environment)
    if has is None:
        return Resources(gpus=gpus)
    share = gpus / has.gpus if gpus and has.gpus else 1.0
    return Resources(cpus=max(1, int(has.cpus * min(1.0, share))), gpus=gpus)


def resources(
    settings: Settings,
    environment: str,
    packed: Resources | None = None,
    *,
    gpus: int | None = None,
    cpus: int | None = None,
    memory: str | None = None,
    processes: int | None = None,
    nodes: int | None = None,
    length: str | None = None,
) -> Resources:
    """The resources of a job: `memory` as `16GB`, `length` as `12h`; by default those that it was packed with.

    With `gpus`, each has one process, and as many cores as the environment's settings give to a GPU.
    """
    size = parse_bytes(memory) if memory else 0
    if size is None:
        raise RequestError(f"`{memory}` must be a size of memory, such as 16GB")
    minutes = minutes_of(length) if length else None
    if length and minutes is None:
        raise RequestError(f"`{length}` must be a length of time, such as 90m or 12h")
    where = environment_of(settings, environment)
    other = packed or _usual_resources(where, gpus or 0)
    cores_per_gpu = settings.environments[environment].get("cores_per_gpu")
    count = processes or (other.processes if gpus is None else max(1, gpus))
    usual = max(count, gpus * cores_per_gpu if gpus and cores_per_gpu else other.cpus)
    return Resources(
        cpus=cpus or usual,
        memory=size or other.memory,
        gpus=other.gpus if gpus is None else gpus,
        processes=count,
        nodes=nodes or other.nodes,
        minutes=minutes or other.minutes,
    )


# -- submitting


def submit(store: JobStore, settings: Settings, orders: Sequence[Order]) -> list[int]:
    """Add jobs, all or none; their ids, those of the trials of a sweep included."""
    for order in orders:
        _refuse_impossible(settings, order)
    orders = _sorted(orders)
    made: list[Path] = []
    agent = store.agent_of(settings.host, settings.folder)
    submissions: list[Submission] = []
    places: dict[str, int] = {}  # of the orders that have names
    try:
        for order in orders:
            after = [places[word] if word in places else store.job(word).id for word in order.after]
            with _writing(settings):
                order.package.save(settings.packages)
                run = _new_run(settings, order)
                made.append(run)
                submissions += _submissions(settings, order, run, after, len(submissions))
            if order.name is not None:
                places[order.name] = -len(submissions)
        return store.submit([replace(submission, agent=agent) for submission in submissions])
    except BaseException:
        for run in made:
            shutil.rmtree(run, ignore_errors=True)
        raise


@contextlib.contextmanager
def _writing(settings: Settings) -> Iterator[None]:
    """Report a drive that is full or can't be written, whose jobs the store would not run."""
    try:
        yield
    except OSError as problem:
        help = "free some room, and try again: nothing is lost" if problem.errno in DISK_IS_FULL else ""
        raise StoreFailed(f"can't write {problem.filename or settings.folder}: {problem.strerror}", help) from None


def _refuse_impossible(settings: Settings, order: Order) -> None:
    refuse_other_version(order.package.manifest, leaven_version(), f"package {order.package.manifest.name}")
    if order.name is not None and (wrong := run_folder.wrong_name(order.name)):
        raise RequestError(wrong.replace("of a run", "of a job"))
    if order.name is not None and order.name.isdecimal():
        raise RequestError(f"`{order.name}` can't be the name of a job: a number is the id of one")
    job_variables.refuse_wrong(order.variables, order.secrets)
    if wrong := out_of_range(order.resources):
        raise RequestError(f"no job can need that: {wrong}")
    if abs(order.priority) > _LARGEST or not 0 <= order.retries <= _LARGEST:
        raise RequestError(f"priority and retries can't be larger than {_LARGEST:,}")
    has = _capacity(environment_of(settings, order.environment))
    if has is not None and (lacking := missing(order.resources.slots, has)):
        raise RequestError(f"{order.environment} can't run this job: {lacking}", f"{order.environment} has {has}")
    if has is not None and order.resources.nodes > 1:
        raise RequestError(f"{order.environment} can't run this job: it is a single machine")
    has_sweep = order.package.manifest.entry is Entry.SWEEP
    if order.is_sweep and not has_sweep:
        raise RequestError("the recipe has no `sweep`", "submit it without --sweep")
    if has_sweep and not order.is_sweep and max(order.resources.nodes, order.resources.processes) > 1:
        fact = "one job trains the trials of a sweep one after the other, each in one process on one machine"
        raise RequestError(fact, "--sweep makes a job of each trial, which may have several processes and nodes")


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
        settings.runs.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
        return folder
    try:
        return run_folder.new_folder(
            Path(manifest.output), order.name, is_quick=manifest.is_quick, is_private=True
        ).absolute()
    except FileExistsError as problem:
        raise NameTaken(f"{problem.filename} exists already", "choose another name") from None


def _submissions(settings: Settings, order: Order, run: Path, after: Sequence[int], before: int) -> list[Submission]:
    """The jobs of an order: one, or those of a sweep's trials and one that finishes the best."""
    manifest = order.package.manifest
    whole = Submission(
        name=order.name,
        stem=manifest.name,
        package=order.package.hash,
        environment=order.environment,
        settings=settings.environments[order.environment],
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
        variables=order.variables,
        secrets=order.secrets,
    )
    if not order.is_sweep:
        return [whole]
    unpack(order.package, run)
    trials = sweep_folder.read_trials(run).trials
    trial_job = replace(whole, name=None, stem=f"{manifest.name}-trial", entry=Entry.PROGRAM, batch=run.name)
    jobs = [replace(trial_job, run=str(run / trial.name), arguments=trial.flags) for trial in trials]
    waits = [-(before + number) for number in range(1, len(jobs) + 1)]
    single = replace(order.resources, processes=1, nodes=1)  # the best is finished by one process
    last = replace(whole, entry=Entry.END_SWEEP, arguments=(), resources=single, batch=run.name)
    return [*jobs, replace(last, after=waits, after_any_end=True)]


# -- what is wanted of jobs


def cancel(store: JobStore, jobs: Sequence[Job]) -> None:
    """Stop jobs for good, after they have saved."""
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
        for before in (needed for needed in store.unmet(job.id) if needed.id not in ids):
            help = f"retry both: `leaven jobs retry {before.name} {job.name}`"
            raise RequestError(f"{job.name} comes after {before.name}, which is {before.shown_state}", help)
    store.retry(ids)


def clean(store: JobStore, settings: Settings, jobs: Sequence[Job], *, by_force: bool = False) -> int:
    """Forget jobs that have ended, with their logs and packages; their runs stay. How many were removed.

    By force, jobs in whatever state: the last way out for one that can be neither cancelled nor ended.
    """
    if not by_force:
        help = "cancel it first: `leaven jobs cancel`; --force ends what can be ended, and forgets it"
        _refuse(jobs, (State.QUEUED, *ACTIVE), "has not ended", help)
    ids = [job.id for job in jobs]
    waiting = store.dependants(ids)
    if waiting:
        raise RequestError(f"job {waiting[0]} waits for one of these", "cancel it first: `leaven jobs cancel`")
    if active := [job for job in jobs if job.state in ACTIVE]:
        store.want([job.id for job in active], Wanted.STOP)  # the store refuses those of others
    for job in active:
        _end_by_force(store, settings, job)
    _forget(store, settings, ids, whatever_state=by_force)
    return len(ids)


def clean_all(store: JobStore, settings: Settings, minutes: float | None = None) -> int:
    """Forget one's own jobs that have ended, or did that long ago, except those that others wait for; how many."""
    agent = store.agent_of(settings.host, settings.folder)
    until = None if minutes is None else time.time() - 60 * minutes
    count = 0
    while ids := store.ended(agent, until, _AT_ONCE):
        _forget(store, settings, ids)
        count += len(ids)
    return count


def _forget(store: JobStore, settings: Settings, ids: Sequence[int], *, whatever_state: bool = False) -> None:
    """Remove jobs, with their logs, and packages that no other job needs; their runs stay."""
    attempts, packages = store.remove(ids, whatever_state=whatever_state)
    for attempt in attempts:
        shutil.rmtree(settings.attempts / attempt, ignore_errors=True)
    for package in packages:
        package_file(settings.packages, package).unlink(missing_ok=True)


def _end_by_force(store: JobStore, settings: Settings, job: Job) -> None:
    """End what runs of a job, as far as its environment lets us."""
    with contextlib.suppress(Exception):  # whatever keeps the loop from ending it may do so here
        environment = make(json.loads(job.settings), settings)
        (attempt,) = (attempt for attempt in store.attempts(job.id) if attempt.id == job.attempt)
        deadline = time.monotonic() + _FORCE
        while environment.poll({attempt.id: attempt.native})[attempt.id].phase not in ("ended", "absent"):
            if time.monotonic() > deadline:
                return
            environment.cancel(attempt.id, attempt.native, 0.0)
            time.sleep(0.1)


def backup(store: JobStore, file: Path) -> int:
    """Write a copy of the store to a file; the number of its jobs."""
    return save_copy(store.engine, file)


def restore(store: JobStore, settings: Settings, file: Path, *, replaces: bool) -> int:
    """Replace the store by a copy; the number of its jobs."""
    if has_leader(settings.store, settings.folder):
        raise RequestError("a coordinator is running", "stop it first: `leaven coordinator stop`")
    if (count := sum(store.counts().values())) and not replaces:
        raise RequestError(f"the store has {count:,} jobs, which would be lost", "back it up, and use --replace")
    return load_copy(store.engine, file)


def set_quota(store: JobStore, user: str, limits: Mapping[str, int | None]) -> None:
    """Limit what a user may have at a time; without limits, no longer. `*` are all that have no quota of their own."""
    new = {name: number for name, number in limits.items() if number is not None}
    others = {name: limit for name, limit in store.quotas().items() if name != user}
    store.set_fact(QUOTAS, json.dumps({**others, **({user: new} if new else {})}, sort_keys=True), wakes=True)


def _refuse(jobs: Sequence[Job], states: Sequence[State], reason: str, help: str = "") -> None:
    for job in jobs:
        if job.state in states:
            raise RequestError(f"{job.name} {reason}: it is {job.shown_state}", help)
