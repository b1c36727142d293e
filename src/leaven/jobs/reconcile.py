"""The reconcile loop: from what users want and what is so to what is done next.

One `tick` asks the environments what became of attempts, records it, ends what is not wanted, and starts what may
start. Everything is recorded before it is done and can be done again, so the loop may be killed anywhere and go on
where it was. No decision depends on the time of day, which may jump.
"""

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from leaven.formats import run_folder
from leaven.formats.sweep_folder import DIVERGED
from leaven.jobs import scheduling
from leaven.jobs.environments.environment import (
    GRACE,
    Environment,
    Refused,
    Status,
    TakesArrays,
    Task,
    Unreachable,
)
from leaven.jobs.environments.kinds import KINDS
from leaven.jobs.package import PackageError, open_package, package_file, unpack
from leaven.jobs.progress import read_progress
from leaven.jobs.resources import Slots, missing
from leaven.jobs.settings import Settings
from leaven.jobs.states import Outcome, State, Wanted
from leaven.jobs.store.for_loop import LoopStore, Waiting
from leaven.jobs.store.records import Attempt, EnvironmentRecord, Job
from leaven.jobs.supervisor import DISK_IS_FULL

LONGEST_BACKOFF = 300.0
_ASK_AGAIN = 5.0  # seconds until an environment that did not answer is asked again
_PROGRESS = 1.0  # seconds between two looks at a run

_log = logging.getLogger(__name__)


class Reconciler:
    """The loop of one coordinator. `clock` never jumps."""

    def __init__(self, store: LoopStore, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._environments: dict[tuple[str, str], Environment] = {}
        self._known: dict[str, EnvironmentRecord] = {}
        self._ask_at: dict[str, float] = {}  # when an environment that did not answer is asked again
        self._ready_at: dict[tuple[int, int], float] = {}  # when a job may be tried again, by id and attempts so far
        self._progress_at: dict[int, tuple[float, str]] = {}
        self._too_large: dict[int, str] = {}  # why queued jobs can't run where they should
        self._revision = -1
        self._is_quiet = False  # whether only users can change anything
        self._token = ""  # of the store: two stores never have attempts of the same id

    def tick(self) -> float | None:
        """Do what is to be done; in how many seconds to look again, None where only users can change anything."""
        revision = self._store.revision()
        has_news = revision != self._revision
        if not has_news and self._is_quiet:
            return None
        self._is_quiet = False  # whatever fails below is done again
        if has_news:
            self._known = self._store.environments()
            self._store.begin_rounds()
            self._store.cancel_queued()
            self._revision = revision
        active = self._store.active()
        changed = self._follow(active)
        while self._store.cancel_dependants():
            pass
        active = self._store.active() if changed else active
        wait = self._start(active)
        self._is_quiet = wait is None
        return wait

    # -- attempts that are under way

    def _follow(self, active: list[tuple[Job, Attempt]]) -> bool:
        """Ask what became of attempts, and record it; whether anything changed."""
        changed = False
        for name in dict.fromkeys(job.environment for job, _ in active):
            mine = [(job, attempt) for job, attempt in active if job.environment == name]
            environment = self._environment(name)
            if environment is None or self._clock() < self._ask_at.get(name, 0.0):
                continue
            with self._reaching(name):
                found = environment.poll({attempt.id: attempt.native for _, attempt in mine})
                for job, attempt in mine:
                    changed |= self._apply(environment, job, attempt, found[attempt.id])
        return changed

    def _apply(self, environment: Environment, job: Job, attempt: Attempt, status: Status) -> bool:
        """Record what became of an attempt; whether its job's state changed."""
        if status.phase == "ended":
            self._end(job, attempt, status)
            return True
        if job.wanted is not Wanted.RUN and job.state is not State.STOPPING:
            self._store.note_stopping(job.id)  # before it is done, so that it is done again after a crash
            environment.cancel(attempt.id, attempt.native, self._grace(job))
            return True
        if status.phase == "absent":
            self._submit_again(environment, job, attempt)
            if job.state is State.STOPPING:  # the attempt ends as soon as it begins
                environment.cancel(attempt.id, attempt.native, self._grace(job))
            return False
        if job.state is State.STOPPING:
            environment.cancel(attempt.id, attempt.native, self._grace(job))
            return False
        if status.phase == "running":
            self._note_progress(job)
            if job.state is State.STARTING:
                self._store.note_running(job, attempt.id)
                return True
        return False

    def _end(self, job: Job, attempt: Attempt, status: Status) -> None:
        """Record how an attempt ended, and what follows for its job."""
        self._note_progress(job, is_last=True)
        outcome = status.outcome or Outcome.LOST
        if outcome is Outcome.FAILED and has_diverged(Path(job.run)):
            outcome = Outcome.DIVERGED
        state, failures, delay = what_follows(job, outcome, self._settings.backoff)
        reason = "" if state is State.SUCCEEDED else status.reason
        self._store.end_attempt(
            job.id,
            attempt.id,
            outcome,
            exit_code=status.exit_code,
            attempt_reason=status.reason,
            state=state,
            reason=reason,
            failures=failures,
            delay=delay,
        )
        if delay:
            self._ready_at[job.id, job.attempts] = self._clock() + delay
        _log.info("%s: attempt %s %s; now %s", job.name, attempt.number, outcome, state)

    def _note_progress(self, job: Job, *, is_last: bool = False) -> None:
        """Record how far a run is, if that has changed; its file is looked at once a second."""
        looked, before = self._progress_at.get(job.id, (-_PROGRESS, job.progress))
        if not is_last and self._clock() < looked + _PROGRESS:
            return
        found = None
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            found = read_progress(Path(job.run), job.epochs, job.monitor)
        shown = found.to_json() if found is not None else before
        if shown != before:
            self._store.note_progress(job.id, shown)
        self._progress_at[job.id] = (self._clock(), shown)
        if is_last:
            self._progress_at.pop(job.id, None)

    # -- new attempts

    def _start(self, active: list[tuple[Job, Attempt]]) -> float | None:
        """Start what may start; in how many seconds to look again."""
        now = self._clock()
        waits = [1.0] if active else []
        waiting = self._store.waiting()
        for name in dict.fromkeys(job.environment for job in waiting):
            queue = [job for job in waiting if job.environment == name]
            environment = self._environment(name)
            if environment is None:
                continue
            if (ask_at := self._ask_at.get(name, 0.0)) > now:
                waits.append(ask_at - now)
                continue
            ready = {job.id: self._ready(job, now) for job in queue}
            waits += [at - now for at in ready.values() if at > now]
            running = [(job, attempt) for job, attempt in active if job.environment == name]
            with self._reaching(name):
                capacity = environment.capacity()
                self._note_too_large(queue, capacity)
                starts = scheduling.choose(
                    [job for job in queue if ready[job.id] <= now],
                    [job for job, _ in running],
                    capacity,
                    scheduling.in_use(attempt.devices for _, attempt in running),
                )
                self._begin(environment, starts)
                waits += [1.0] if starts else []
            if name in self._ask_at:
                waits.append(_ASK_AGAIN)
        return min(waits, default=None)

    def _note_too_large(self, queue: Sequence[Waiting], capacity: Slots | None) -> None:
        """Let users see why a job does not start: what its environment has may have become less since its submit."""
        for job in queue:
            lacking = missing(scheduling.needs(job), capacity) if capacity is not None else None
            reason = f"{job.environment} can't run it: {lacking}" if lacking else ""
            if reason != self._too_large.get(job.id, ""):
                self._store.note_reason(job.id, reason)
                self._too_large[job.id] = reason

    def _ready(self, job: Waiting, now: float) -> float:
        """When a job may be tried again. A coordinator that was just started waits the whole delay again."""
        if not job.delay:
            return now
        return self._ready_at.setdefault((job.id, job.attempts), now + job.delay)

    def _begin(self, environment: Environment, starts: Sequence[scheduling.Start]) -> None:
        """Record attempts, then submit them: those of a batch together, where the environment can do that."""
        if not isinstance(environment, TakesArrays):
            for start in starts:
                if (recorded := self._record(start)) is not None:
                    self._submit(environment, *recorded)
            return
        batches: dict[object, list[tuple[Job, Attempt]]] = {}
        for start in starts:
            if (recorded := self._record(start)) is not None:
                job = recorded[0]
                key = (job.batch, job.resources) if job.batch else job.id
                batches.setdefault(key, []).append(recorded)
        for batch in batches.values():
            if len(batch) > 1:
                self._submit_array(environment, batch)
            else:
                self._submit(environment, *batch[0])

    def _record(self, start: scheduling.Start) -> tuple[Job, Attempt] | None:
        """A new attempt of a job, which is in the store; None if the job may not start any more."""
        job = self._store.job(start.job)
        self._ready_at.pop((job.id, job.attempts), None)
        self._too_large.pop(job.id, None)
        number = job.attempts + 1
        self._token = self._token or self._store.fact("store") or ""
        id = f"{self._token}-{job.id}-{number}-{os.urandom(2).hex()}"
        if not self._store.begin_attempt(job.id, id, number, job.environment, start.devices):
            return None
        devices = ",".join(map(str, start.devices))
        return job, Attempt(id, job.id, number, job.environment, "", devices, 0.0, None, None, None, None, "")

    def _submit_array(self, environment: TakesArrays, batch: Sequence[tuple[Job, Attempt]]) -> None:
        """Submit attempts as one array. If that fails they stay absent, and are submitted one by one."""
        try:
            natives = environment.submit_array([self._task(job, attempt) for job, attempt in batch])
        except (Refused, PackageError, OSError) as problem:
            _log.warning("%s jobs can't be submitted as an array: %s", len(batch), problem)
            return
        for (job, attempt), native in zip(batch, natives, strict=True):
            self._store.note_native(attempt.id, native)
            _log.info("%s: attempt %s submitted as %s", job.name, attempt.number, native)

    def _submit_again(self, environment: Environment, job: Job, attempt: Attempt) -> None:
        """Submit an attempt that was recorded before, unless the environment has it after all."""
        native = environment.find(attempt.id)
        if native is None:
            self._submit(environment, job, attempt)
        elif native != attempt.native:
            self._store.note_native(attempt.id, native)

    def _submit(self, environment: Environment, job: Job, attempt: Attempt) -> None:
        """Submit an attempt that is recorded."""
        try:
            native = environment.submit(self._task(job, attempt))
        except (Refused, PackageError) as problem:
            self._end(job, attempt, Status("ended", Outcome.REFUSED, reason=str(problem)))
            return
        except OSError as problem:
            if problem.errno in DISK_IS_FULL:  # the attempt stays absent, and is submitted again
                _log.warning("%s can't be submitted: %s", job.name, problem)
                return
            reason = f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)
            self._end(job, attempt, Status("ended", Outcome.FAILED, reason=reason))
            return
        self._store.note_native(attempt.id, native)
        _log.info("%s: attempt %s submitted as %s", job.name, attempt.number, native)

    def _task(self, job: Job, attempt: Attempt) -> Task:
        """An attempt with all that an environment needs; the run folder has what is run."""
        package = open_package(package_file(self._settings.packages, job.package))
        run = Path(job.run)
        run.mkdir(parents=True, exist_ok=True)
        unpack(package, run)
        return Task(
            attempt.id,
            self._settings.attempts / attempt.id,
            run,
            Path(job.project or run),
            job.entry,
            json.loads(job.arguments),
            job.resources,
            scheduling.in_use([attempt.devices]),
            {"LEAVEN_JOB": str(job.id)},
        )

    # -- environments

    def _environment(self, name: str) -> Environment | None:
        known = self._known.get(name)
        if known is None:
            self._known = self._store.environments()
            known = self._known[name]
        if known.kind not in KINDS:
            return None
        key = (name, known.settings)
        if key not in self._environments:
            made = KINDS[known.kind].make(json.loads(known.settings), self._settings.attempts, self._settings.wake)
            self._environments[key] = made
        return self._environments[key]

    @contextlib.contextmanager
    def _reaching(self, name: str) -> Iterator[None]:
        """Mark an environment that does not answer, and one that does again."""
        try:
            yield
        except Unreachable as problem:
            _log.warning("%s does not answer: %s", name, problem)
            if name not in self._ask_at:
                self._store.mark_environment(name, str(problem))
            self._ask_at[name] = self._clock() + _ASK_AGAIN
        else:
            if self._ask_at.pop(name, None) is not None or self._known[name].unreachable_since is not None:
                self._store.mark_environment(name, "")
                self._known = self._store.environments()

    def _grace(self, job: Job) -> float:
        settings: Mapping[str, object] = json.loads(self._known[job.environment].settings)
        return float(str(settings.get("grace", GRACE)))


def has_diverged(run: Path) -> bool:
    """Whether a training has ended because its loss was not a number: it would again."""
    return bool(run_folder.read_json(run / run_folder.LOCK).get(DIVERGED))


def what_follows(job: Job, outcome: Outcome, backoff: float) -> tuple[State, int, float]:
    """The state of a job after an attempt, its failures so far, and how long to wait before the next attempt."""
    if outcome is Outcome.SUCCEEDED:
        return State.SUCCEEDED, job.failures, 0.0
    if job.wanted is Wanted.STOP:
        return State.CANCELLED, job.failures, 0.0
    if job.wanted is Wanted.PAUSE:
        return State.QUEUED, job.failures, 0.0
    if outcome is Outcome.STOPPED:  # preempted, or resumed before it had stopped: uses up no retry
        return State.QUEUED, job.failures, 0.0 if job.state is State.STOPPING else backoff
    if outcome in (Outcome.TIMED_OUT, Outcome.REFUSED, Outcome.DIVERGED):
        return State.FAILED, job.failures, 0.0
    failures = job.failures + 1
    if failures > job.retries:
        return (State.LOST if outcome is Outcome.LOST else State.FAILED), failures, 0.0
    return State.QUEUED, failures, min(backoff * 2 ** (failures - 1), LONGEST_BACKOFF)
