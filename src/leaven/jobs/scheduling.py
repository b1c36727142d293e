"""Which jobs start next: a pure function of the queue, what is running and what is free.

The highest priority comes first. Among equals, it is the turn of the owner with the fewest jobs running, then of the
batch (a sweep) with the fewest, then of the oldest. What a job needs that does not fit yet is kept free for it, so that
large jobs are not passed by small ones for ever; small ones start before it where they don't take any of that.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from leaven.jobs.resources import Slots, missing


class Queued(Protocol):
    """What the order depends on."""

    @property
    def id(self) -> int: ...
    @property
    def owner(self) -> str: ...
    @property
    def batch(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def cpus(self) -> int: ...
    @property
    def memory(self) -> int: ...
    @property
    def gpus(self) -> int: ...


@dataclass(frozen=True)
class Start:
    """A job that starts, with the numbers of the GPUs that it gets."""

    job: int
    devices: tuple[int, ...] = ()


def choose(
    queue: Iterable[Queued],
    running: Iterable[Queued],
    capacity: Slots | None,
    devices_in_use: Sequence[int] = (),
) -> list[Start]:
    """What starts now in an environment. One without a capacity takes all; what never fits is passed over."""
    running = list(running)
    shares = _Shares(running)
    if capacity is None:
        return [Start(job.id) for job in _in_turn(queue, shares)]
    chosen: list[Start] = []
    free = capacity
    for job in running:
        free -= needs(job)
    devices = sorted(set(range(capacity.gpus)) - set(devices_in_use))
    for job in _in_turn((job for job in queue if not missing(needs(job), capacity)), shares):
        if not free.has(Slots(cpus=1)) and not free.has(Slots(gpus=1)):
            break
        fits, free = free.has(needs(job)), free - needs(job)  # what does not fit yet is kept for it
        if fits:
            given, devices = tuple(devices[: job.gpus]), devices[job.gpus :]
            chosen.append(Start(job.id, given))
            shares.count(job)
    return chosen


def needs(job: Queued) -> Slots:
    """What a job takes of an environment while it runs."""
    return Slots(job.cpus, job.memory, job.gpus)


class _Shares:
    """How many jobs each owner and each batch have running."""

    def __init__(self, running: Iterable[Queued]) -> None:
        self._owners: Counter[str] = Counter()
        self._batches: Counter[str] = Counter()
        for job in running:
            self.count(job)

    def count(self, job: Queued) -> None:
        self._owners[job.owner] += 1
        self._batches[_batch(job)] += 1

    def turn(self, job: Queued) -> tuple[int, int, int, int]:
        """Orders jobs, the next first."""
        return -job.priority, self._owners[job.owner], self._batches[_batch(job)], job.id


def _batch(job: Queued) -> str:
    return job.batch or f"job {job.id}"


def _in_turn(queue: Iterable[Queued], shares: _Shares) -> Iterable[Queued]:
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
