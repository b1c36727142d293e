"""The reconcile loop: compares the wanted with the actual states of jobs, and does what brings them together.

One `tick` asks the environments for the statuses of attempts, records them, stops attempts that are not wanted, lets
the leader grant new ones (`granting.py`), and submits these. Everything is recorded before it is done and can be done
again, so the loop may be killed anywhere and go on where it was. What goes wrong with one job ends that job, and what
goes wrong with an environment counts as not being reached: neither stops the others.
"""

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from leaven.formats import run_folder
from leaven.formats.installed_versions import leaven_version
from leaven.formats.sweep_folder import DIVERGED
from leaven.jobs import job_variables, scheduling
from leaven.jobs.environments.environment import GRACE, Environment, Refused, Status, TakesArrays, Task, Unreachable
from leaven.jobs.environments.kinds import make
from leaven.jobs.granting import Leader, target_key
from leaven.jobs.job_variables import VariableError
from leaven.jobs.manifest import PackageError
from leaven.jobs.package import open_package, package_file, unpack
from leaven.jobs.progress import read_progress
from leaven.jobs.resources import Slots
from leaven.jobs.settings import Settings
from leaven.jobs.states import Outcome, State, Wanted
from leaven.jobs.store.failures import Forgotten, StoreFailed
from leaven.jobs.store.for_leader import LeaderStore
from leaven.jobs.store.for_loop import AfterAttempt, LoopStore
from leaven.jobs.store.records import Attempt, Job
from leaven.jobs.supervisor import DISK_IS_FULL

LONGEST_BACKOFF = 300.0
_ASK_AGAIN = 5.0  # seconds until an environment that did not answer is asked again
_LOOK = 1.0  # seconds between two looks at attempts
_SUBMITTING = 2.0  # seconds in which attempts are submitted before others are looked at again
_REPORT = 10.0  # seconds between two signs of life
_PROGRESS = 1.0  # seconds between two looks at a run

_log = logging.getLogger(__name__)

Pair = tuple[Job, Attempt]


class Target(NamedTuple):
    """Where a job runs: an environment, with the settings that it had when the job was submitted."""

    name: str
    settings: str


class Reconciler:
    """The loop of one coordinator, with the decisions for all if it leads. `clock` never jumps."""

    def __init__(self, store: LoopStore, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._leader = Leader(LeaderStore(store.engine), store.agent, lambda: self._clock()) if store.leads else None
        self._environments: dict[Target, Environment] = {}
        self._has: dict[Target, Slots | None] = {}  # what environments have; None: a queue of their own
        self._reported: tuple[float, object] = (-_REPORT, None)  # when that was reported, and what
        self._is_marked: dict[str, bool] = {}  # whether environments are marked as not reached, by name
        self._ask_at: dict[Target, float] = {}  # when an environment that did not answer is asked again
        self._silence: dict[Target, tuple[str, str]] = {}  # since when it does not, and why
        self._progress_at: dict[int, tuple[float, str]] = {}
        process = {"pid": os.getpid(), "version": leaven_version(), "since": time.time()}
        self._about = {"host": settings.host, "folder": str(settings.folder), **process}
        self._revision = -1
        self._is_quiet = False  # whether only users can change anything
        self._has_more = False  # whether attempts were left to be submitted, or ended and made room

    def tick(self) -> float | None:
        """Do what is to be done; in how many seconds to look again, None where only others can change anything."""
        revision = self._store.revision()
        has_news = revision != self._revision
        if not has_news and self._is_quiet:
            self._report()
            return None
        self._is_quiet = self._has_more = False  # whatever fails below is done again
        if has_news:
            self._store.adopt()
            self._store.begin_rounds()
            self._store.cancel_queued()
            self._revision = revision
        active = self._store.active()
        self._look_at_environments()
        self._report()
        waits = [_LOOK] if active else []
        if self._leader is not None:  # before engines are asked, which takes them long where there is much to do
            self._leader.cancel_dependants()
            granted, wait = self._leader.grant()
            self._submit_granted(granted)
            waits += [] if wait is None else [wait]
        self._follow(active)
        waits += [0.0] if self._has_more else []
        waits += [max(0.0, at - self._clock()) for at in self._ask_at.values()]
        self._is_quiet = not waits
        return min(waits, default=None)

    # -- attempts that are under way

    def _follow(self, active: Sequence[Pair]) -> None:
        """Ask for the statuses of attempts, and record them."""
        for target, mine in _by_target(active).items():
            was_asked = self._reach(target, partial(self._follow_in, mine))
            if was_asked and target in self._ask_at:
                since, problem = self._silence[target]
                self._note_waits([job for job, _ in mine], f"{target.name} does not answer since {since}: {problem}")

    def _follow_in(self, mine: Sequence[Pair], environment: Environment) -> None:
        statuses, absent = self._poll(environment, mine), []
        for job, attempt in mine:
            with self._isolated(environment, job, attempt):
                if self._apply(environment, job, attempt, statuses[attempt.id]):
                    absent.append((job, attempt))
        self._submit(absent, environment, until=self._clock() + _SUBMITTING)

    def _poll(self, environment: Environment, mine: Sequence[Pair]) -> Mapping[str, Status]:
        """The statuses of attempts. Where asking for all at once fails, each is asked for alone."""
        try:
            return environment.poll({attempt.id: attempt.native for _, attempt in mine})
        except Unreachable:
            raise
        except Exception as problem:
            statuses: dict[str, Status] = {}
            broken: dict[str, Status] = {}
            for job, attempt in mine:
                try:
                    statuses |= environment.poll({attempt.id: attempt.native})
                except Unreachable:
                    raise
                except Exception as its:
                    _log.exception("%s can't be asked about", job.name)
                    broken[attempt.id] = Status("ended", Outcome.ERROR, reason=_described(its))
            if not statuses:  # then it is not about a job
                raise problem from None
            return {**statuses, **broken}

    def _apply(self, environment: Environment, job: Job, attempt: Attempt, status: Status) -> bool:
        """Record the status of an attempt, and stop one that is not wanted; whether it is to be submitted."""
        if status.phase == "ended":
            self._end(job, attempt, status)
            return False
        is_wanted = job.wanted is Wanted.RUN and job.preempted != attempt.id
        if not is_wanted and job.state is not State.STOPPING:
            self._store.note_stopping(job.id)  # before it is done, so that it is done again after a crash
        if not is_wanted or job.state is State.STOPPING:
            if status.phase == "absent":  # it ends as soon as it begins
                self._submit([(job, attempt)], environment)
            environment.cancel(attempt.id, attempt.native, _grace(job))
            return False
        if status.phase == "absent":
            return True
        if status.native and status.native != attempt.native:  # a crash came after it was submitted
            self._store.note_native(attempt.id, status.native)
        if status.phase == "running":
            self._note_progress(job)
            if job.state is State.STARTING:
                self._store.note_running(job, attempt.id)
        self._note_waits([job], status.reason)
        return False

    def _note_waits(self, jobs: Sequence[Job], reason: str) -> None:
        """Note why attempts don't go on, or that they do."""
        if changed := [job.id for job in jobs if job.waits != reason]:
            self._store.note_waits(changed, reason)

    def _end(self, job: Job, attempt: Attempt, status: Status) -> None:
        """Record how an attempt ended, and what follows for its job."""
        self._note_progress(job, is_last=True)
        outcome = status.outcome or Outcome.LOST
        if outcome is Outcome.FAILED and run_folder.read_json(Path(job.run) / run_folder.LOCK).get(DIVERGED):
            outcome = Outcome.DIVERGED  # its loss was NaN: another attempt's would be, too
        after = next_state(job, outcome, self._settings.backoff)
        ended = replace(attempt, outcome=outcome, exit_code=status.exit_code, reason=status.reason)
        self._store.end_attempt(job, ended, after)
        self._has_more = True
        _log.info("%s: attempt %s %s; now %s", job.name, attempt.number, outcome, after.state)

    def _note_progress(self, job: Job, *, is_last: bool = False) -> None:
        """Record how far a run is, if that has changed; its file is looked at once a second."""
        looked, before = self._progress_at.get(job.id, (-_PROGRESS, job.progress))
        if not is_last and self._clock() < looked + _PROGRESS:
            return
        shown = before
        try:
            progress = read_progress(Path(job.run), job.epochs, job.monitor)
            shown = progress.to_json() if progress is not None else before
            if shown != before:
                self._store.note_progress(job.id, shown)
        except StoreFailed:
            raise
        except Exception as problem:  # files of a run are its program's: they may have anything in them
            _log.debug("the progress of %s is not known: %s", job.name, problem)
        self._progress_at[job.id] = (self._clock(), shown)
        if is_last:
            self._progress_at.pop(job.id, None)

    # -- new attempts

    def _look_at_environments(self) -> None:
        """Ask for the capacity of the environments that jobs still need."""
        targets = [Target(*each) for each in self._store.targets()]
        for target in targets:
            self._reach(target, partial(self._note_capacity, target))
        self._has = {target: has for target, has in self._has.items() if target in set(targets)}
        self._ask_at = {target: at for target, at in self._ask_at.items() if target in set(targets)}
        self._silence = {target: silence for target, silence in self._silence.items() if target in self._ask_at}

    def _note_capacity(self, target: Target, environment: Environment) -> None:
        self._has[target] = environment.capacity()

    def _report(self) -> None:
        """Tell the leader the capacity of the environments, when it has changed, and as a sign of life."""
        capacity: dict[str, Any] = {target_key(*target): has and [*astuple(has)] for target, has in self._has.items()}
        capacity |= {target_key(*target): f"{target.name} does not answer" for target in self._ask_at}
        at, before = self._reported
        is_news = capacity != before
        if is_news or self._clock() >= at + _REPORT:
            self._store.note_agent(self._about, capacity, is_news=is_news)
            self._reported = (self._clock(), capacity)

    def _submit_granted(self, granted: Sequence[str]) -> None:
        """Submit attempts that were just recorded, which no environment has."""
        active = [pair for pair in self._store.active() if pair[1].id in set(granted)] if granted else []
        for target, mine in _by_target(active).items():
            self._reach(target, partial(self._submit, mine))

    def _submit(self, recorded: Sequence[Pair], environment: Environment, until: float = math.inf) -> None:
        """Submit attempts that are recorded: those of a batch together, where the environment can do that.

        Engines take their time for each. What is left when the time is up is submitted next time.
        """
        batches: dict[object, list[Pair]] = {}
        for job, attempt in recorded:
            key = (job.batch, job.resources) if job.batch and isinstance(environment, TakesArrays) else job.id
            batches.setdefault(key, []).append((job, attempt))
        for batch in batches.values():
            if self._clock() > until:
                self._has_more = True
                return
            if len(batch) > 1 and isinstance(environment, TakesArrays) and self._submit_array(environment, batch):
                continue
            for job, attempt in batch:
                with self._isolated(environment, job, attempt):
                    self._submit_one(environment, job, attempt)

    def _submit_array(self, environment: TakesArrays, batch: Sequence[Pair]) -> bool:
        """Submit attempts as one array; whether that could be done."""
        try:
            natives = environment.submit_array([self._task(job, attempt) for job, attempt in batch])
        except (Unreachable, StoreFailed):
            raise
        except Exception as problem:
            _log.warning("%s jobs can't be submitted as an array: %s", len(batch), problem)
            return False
        for (job, attempt), native in zip(batch, natives, strict=True):
            self._store.note_native(attempt.id, native)
            _log.info("%s: attempt %s submitted as %s", job.name, attempt.number, native)
        return True

    def _submit_one(self, environment: Environment, job: Job, attempt: Attempt) -> None:
        try:
            native = environment.submit(self._task(job, attempt))
        except (Refused, PackageError, VariableError) as problem:
            self._end(job, attempt, Status("ended", Outcome.REFUSED, reason=str(problem)))
            return
        except OSError as problem:
            if problem.errno in DISK_IS_FULL:
                raise
            reason = f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)
            self._end(job, attempt, Status("ended", Outcome.FAILED, reason=reason))
            return
        if native:
            self._store.note_native(attempt.id, native)
            _log.info("%s: attempt %s submitted as %s", job.name, attempt.number, native)

    def _task(self, job: Job, attempt: Attempt) -> Task:
        """An attempt with all that an environment needs; the run folder has what is run."""
        package = open_package(package_file(self._settings.packages, job.package))
        if package.hash != job.package:
            raise PackageError("its package is not the one that was submitted any more")
        secrets = job_variables.secret_values(self._settings.folder, job.secrets)
        run = Path(job.run)
        unpack(package, run)
        own = {job_variables.JOB: str(job.id), run_folder.PACKED_BY: package.manifest.leaven}
        return Task(
            attempt.id,
            self._settings.attempts / attempt.id,
            run,
            Path(job.project or run),
            job.entry,
            job.arguments,
            job.resources,
            scheduling.in_use([attempt.devices]),
            {**job.variables, **own},
            secrets,
        )

    # -- what goes wrong

    @contextlib.contextmanager
    def _isolated(self, environment: Environment, job: Job, attempt: Attempt) -> Iterator[None]:
        """End a job for which something fails unexpectedly; the others go on."""
        try:
            yield
        except (Unreachable, StoreFailed):
            raise
        except Forgotten:
            _log.info("%s was forgotten", job.name)
        except Exception as problem:
            if isinstance(problem, OSError) and problem.errno in DISK_IS_FULL:  # it is done again
                _log.warning("%s has to wait: %s", job.name, problem)
                return
            _log.exception("%s can't go on", job.name)
            with contextlib.suppress(Exception):
                environment.cancel(attempt.id, attempt.native, _grace(job))
            self._end(job, attempt, Status("ended", Outcome.ERROR, reason=_described(problem)))

    def _reach(self, target: Target, act: Callable[[Environment], None]) -> bool:
        """Do something in an environment, and let users see whether it answers; False if it is not yet to be asked
        again, or can't be made, which counts as not being reached."""
        if self._clock() < self._ask_at.get(target, 0.0):
            return False
        reason = ""
        try:
            if target not in self._environments:
                self._environments[target] = make(json.loads(target.settings), self._settings)
            act(self._environments[target])
        except StoreFailed:
            raise
        except Exception as problem:
            is_expected = isinstance(problem, Unreachable)
            _log.warning("%s does not answer: %s", target.name, problem, exc_info=None if is_expected else problem)
            reason = str(problem) if is_expected else _described(problem)
            since, _ = self._silence.get(target, (time.strftime("%F %H:%M"), ""))
            self._silence[target] = (since, reason)
            self._ask_at[target] = self._clock() + _ASK_AGAIN
        else:
            self._ask_at.pop(target, None)
        if self._is_marked.get(target.name) is not (reason != ""):
            self._store.mark_environment(target.name, reason)
            self._is_marked[target.name] = reason != ""
        return target in self._environments


def _by_target(pairs: Iterable[Pair]) -> dict[Target, list[Pair]]:
    by_target: dict[Target, list[Pair]] = {}
    for job, attempt in pairs:
        by_target.setdefault(Target(job.environment, job.settings), []).append((job, attempt))
    return by_target


def _grace(job: Job) -> float:
    return float(json.loads(job.settings).get("grace", GRACE))


def _described(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def next_state(job: Job, outcome: Outcome, backoff: float) -> AfterAttempt:
    """The state of a job after an attempt that ended so."""
    if outcome is Outcome.SUCCEEDED:
        return AfterAttempt(State.SUCCEEDED, job.failures)
    if job.wanted is Wanted.STOP or outcome is Outcome.CANCELLED:
        return AfterAttempt(State.CANCELLED, job.failures)
    if outcome in (Outcome.TIMED_OUT, Outcome.REFUSED, Outcome.DIVERGED, Outcome.ERROR):
        return AfterAttempt(State.FAILED, job.failures)
    if job.wanted is Wanted.PAUSE:
        return AfterAttempt(State.QUEUED, job.failures)
    if outcome is Outcome.STOPPED:  # preempted, or resumed before it had stopped: uses up no retry
        return AfterAttempt(State.QUEUED, job.failures, 0.0 if job.state is State.STOPPING else backoff)
    failures = job.failures + 1
    if failures > job.retries:
        return AfterAttempt(State.LOST if outcome is Outcome.LOST else State.FAILED, failures)
    return AfterAttempt(State.QUEUED, failures, min(backoff * 2 ** (failures - 1), LONGEST_BACKOFF))
