"""Which jobs start next: a pure function of the queue, what is running, what is free, and what users have used lately.

The highest priority comes first. Among equals, it is the turn of the owner who has used least, then of the batch (a
sweep) with the fewest jobs running, then of the oldest. What a job needs that does not fit yet is kept free for it, so
that large jobs are not passed by small ones for ever; others start before it where they don't take any of that, or
where their time limit ends them before it could start anyway. It may take the place of running jobs of lower priority
that were submitted as preemptible.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from leaven.jobs.resources import Slots, count_text, missing
from leaven.jobs.store.for_leader import Running, Scheduled

_TURN = "waits for its turn"
_AT_ONCE = 5  # jobs, or sweeps, that are handed to a queue elsewhere before others are looked at again
START = 1.0  # seconds that a job counts for as soon as it starts, however short it is


@dataclass(frozen=True)
class Quota:
    """The most that the running jobs of a user may have; None: no limit."""

    jobs: int | None = None
    cpus: int | None = None
    gpus: int | None = None


@dataclass(frozen=True)
class Users:
    """The recent usage of users, in seconds of cores, and their quotas; `*` are all that are not named."""

    used: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, Quota] = field(default_factory=dict)


@dataclass(frozen=True)
class Start:
    """A job that starts, with the numbers of the GPUs that it gets."""

    job: int
    devices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The jobs that start, why the others wait, which running jobs must make room, and whether more could start now."""

    starts: list[Start] = field(default_factory=list)
    waits: dict[int, str] = field(default_factory=dict)
    leaving: list[int] = field(default_factory=list)
    has_more: bool = False


def choose_all(queue: Iterable[Scheduled], running: Iterable[Scheduled], users: Users | None = None) -> Choice:
    """All of a queue, in turn, as far as quotas let them, some at a time: what it goes to has a queue of its own, and
    handing it over takes a moment for each."""
    shares = _Shares(running, users or Users())
    starts: dict[str, list[Start]] = {}  # by sweep
    waits: dict[int, str] = {}
    for job in _in_turn(queue, shares):
        if over := shares.over_quota(job):
            waits[job.id] = over
        else:
            starts.setdefault(_batch(job), []).append(Start(job.id))
            shares.count(job)
    batches = list(starts.values())
    later = [start.job for batch in batches[_AT_ONCE:] for start in batch]
    now = [start for batch in batches[:_AT_ONCE] for start in batch]
    return Choice(now, waits | dict.fromkeys(later, _TURN), has_more=bool(later))


def choose(
    queue: Iterable[Scheduled],
    running: Iterable[Running],
    capacities: Mapping[int, Slots],
    devices_in_use: Sequence[int] = (),
    users: Users | None = None,
) -> Choice:
    """The jobs that start now on a machine. Each job may have its own limit of the machine's slots."""
    running, queue = list(running), list(queue)
    shares = _Shares(running, users or Users())
    choice = Choice()
    used = sum((job.slots for job in running), Slots())
    kept = Slots()  # for those that don't fit yet
    until = 0.0  # seconds in which the first of them could start
    taken = set(devices_in_use)
    for job in _in_turn(queue, shares):
        has, need = capacities[job.id], job.slots
        ends_in_time = job.minutes is not None and 60 * job.minutes <= until < math.inf
        if lacking := missing(need, has):
            choice.waits[job.id] = lacking
        elif over := shares.over_quota(job):
            choice.waits[job.id] = over
        elif (has - used - kept).has(need) or (ends_in_time and (has - used).has(need)):
            devices = tuple(number for number in range(has.gpus) if number not in taken)[: job.gpus]
            taken.update(devices)
            used += need
            choice.starts.append(Start(job.id, devices))
            shares.count(job)
        else:
            is_first, fits = kept == Slots(), (has - used).has(need)
            kept += need
            choice.waits[job.id] = _TURN if fits else f"waits until {need} are free"
            if is_first:
                choice.leaving.extend(_victims(job, has - used, running))
                until = _seconds_until(need, has - used, running)
            free = [capacity - used for capacity in set(capacities.values())]
            if not any(slots.has(Slots(cpus=1)) or slots.has(Slots(gpus=1)) for slots in free):
                break  # the order of the others does not matter now
    known = {start.job for start in choice.starts} | choice.waits.keys()
    for job in queue:
        if job.id not in known:
            choice.waits[job.id] = missing(job.slots, capacities[job.id]) or _TURN
    return choice


def _victims(job: Scheduled, free: Slots, running: Sequence[Running]) -> list[int]:
    """The running jobs that must make room for one of a higher priority; none if that would not be enough."""
    for other in running:
        free += other.slots if other.is_leaving else Slots()
    victims: list[int] = []
    lower = [other for other in running if other.is_preemptible and not other.is_leaving]
    lower = [other for other in lower if other.priority < job.priority]
    for other in sorted(lower, key=lambda other: (other.priority, -other.id)):
        if free.has(job.slots):
            break
        free += other.slots
        victims.append(other.id)
    return victims if free.has(job.slots) else []


def _seconds_until(need: Slots, free: Slots, running: Sequence[Running]) -> float:
    """In how many seconds there is room for a job, by the time limits of what runs."""
    for other in sorted(running, key=lambda each: each.seconds_left):
        free += other.slots
        if free.has(need):
            return other.seconds_left
    return math.inf


class _Shares:
    """The usage of each owner, and the running jobs of owners and batches."""

    def __init__(self, running: Iterable[Scheduled], users: Users) -> None:
        self._used = dict(users.used)
        self._quotas = users.quotas
        self._running: dict[str, Slots] = {}
        self._owners: Counter[str] = Counter()
        self._batches: Counter[str] = Counter()
        for job in running:
            self._add(job)

    def _add(self, job: Scheduled) -> None:
        self._running[job.owner] = self._running.get(job.owner, Slots()) + job.slots
        self._owners[job.owner] += 1
        self._batches[_batch(job)] += 1

    def count(self, job: Scheduled) -> None:
        """Count a job that starts."""
        self._add(job)
        self._used[job.owner] = self._used.get(job.owner, 0.0) + START * job.cpus

    def turn(self, job: Scheduled) -> tuple[int, float, int, int]:
        """Orders jobs, the next first."""
        return -job.priority, self._used.get(job.owner, 0.0), self._batches[_batch(job)], job.id

    def over_quota(self, job: Scheduled) -> str:
        """`the quota of bob is 4 cores`, where a job would exceed it; empty where it does not."""
        quota = self._quotas.get(job.owner) or self._quotas.get("*")
        if quota is None:
            return ""
        has = self._running.get(job.owner, Slots()) + job.slots
        for number, most, what in (
            (self._owners[job.owner] + 1, quota.jobs, "job"),
            (has.cpus, quota.cpus, "core"),
            (has.gpus, quota.gpus, "GPU"),
        ):
            if most is not None and number > most:
                return f"the quota of {job.owner} is {count_text(most, what)} at a time"
        return ""


def _batch(job: Scheduled) -> str:
    return job.batch or f"job {job.id}"


def _in_turn(queue: Iterable[Scheduled], shares: _Shares) -> Iterable[Scheduled]:
    """The jobs in their order, which changes as jobs are started: a place that has become later is corrected when it
    comes up, since shares only grow."""
    waiting = [(shares.turn(job), job) for job in queue]
    heapq.heapify(waiting)
    while waiting:
        turn, job = heapq.heappop(waiting)
        now = shares.turn(job)
        if now > turn:
            heapq.heappush(waiting, (now, job))
        else:
            yield job


def in_use(devices: Iterable[str]) -> list[int]:
    """The GPUs that attempts have, from what the store says of each: `0,1`."""
    return [int(number) for text in devices for number in text.split(",") if number]
