"""The decisions of the coordinator that leads a store, for all jobs: which may start, and which never will.

To grant a job is to record an attempt of it, with the GPUs that it gets. The coordinator of the job's owner, its agent,
starts it. Agents report the slots of their environments; those on the same machine share them.
"""

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from leaven.jobs import scheduling
from leaven.jobs.resources import Slots
from leaven.jobs.store.for_leader import LeaderStore, Running, Waiting, decayed
from leaven.jobs.store.records import Agent

_LOOK = 1.0  # seconds between two looks while jobs are under way
_WRITE = 60.0  # seconds between two notes of what users have used
SILENT = 60.0  # seconds after which an agent that has said nothing counts as gone


@lru_cache(maxsize=1000)
def target_key(environment: str, settings: str) -> str:
    """The key by which agents report the slots of an environment with its settings."""
    return hashlib.sha256(f"{environment}\n{settings}".encode()).hexdigest()[:12]


class Leader:
    """The decisions of a coordinator that leads; `agent` is its own. `clock` never jumps."""

    def __init__(self, store: LeaderStore, agent: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._agent = agent
        self._clock = clock
        self._ready_at: dict[tuple[int, int], float] = {}  # when a job may be tried again, by id and attempts so far
        self._heard: dict[str, tuple[float, float]] = {}  # what agents said of when they were seen, and when
        self._used: dict[str, float] | None = None  # seconds of cores, by users
        self._counted = self._written = 0.0
        self._token = ""  # of the store: two stores never have attempts of the same id

    def cancel_dependants(self) -> None:
        """End jobs after one that has ended without success."""
        while self._store.cancel_dependants():
            pass

    def grant(self) -> tuple[list[str], float | None]:
        """Record attempts of what may start: their ids, and in how many seconds to look again."""
        running, waiting = self._store.running(), self._store.waiting()
        self._count(running)
        agents = self._store.agents() if waiting else {}
        waits, looks = self._held_back(waiting, agents)
        queue = [job for job in waiting if job.id not in waits]
        granted: list[str] = []
        leaving: list[int] = []
        for host in dict.fromkeys(agents[job.agent].host for job in queue):
            here = [job for job in queue if agents[job.agent].host == host]
            beside = [job for job in running if job.agent in agents and agents[job.agent].host == host]
            choice = self._choose(here, beside, agents)
            by_id = {job.id: job for job in here}
            for start in choice.starts:
                if (id := self._record(by_id[start.job], start.devices)) is not None:
                    granted.append(id)
                waits[start.job] = by_id[start.job].waits  # the grant has changed it
            waits |= choice.waits
            leaving += choice.leaving
            looks += [0.0] if choice.has_more else []
        if leaving:
            self._store.preempt(leaving)
        changed = {job.id: text for job in waiting if (text := waits.get(job.id, "")) != job.waits}
        if changed:
            self._store.note_waits(changed)
        looks += [_LOOK] if running or granted else []
        looks += [SILENT / 2] if any(job.agent != self._agent for job in waiting) else []
        return granted, min(looks, default=None)

    def _choose(
        self, queue: Sequence[Waiting], running: Sequence[Running], agents: Mapping[str, Agent]
    ) -> scheduling.Choice:
        """The choice among the jobs whose agents are on one machine."""
        capacities = {job.id: has for job in queue if (has := _capacity(job, agents)) is not None}
        on_machine = [job for job in running if _capacity(job, agents) is not None]
        elsewhere = [job for job in running if _capacity(job, agents) is None]
        devices = scheduling.in_use(job.devices for job in on_machine)
        quotas = {name: scheduling.Quota(**given) for name, given in self._store.quotas().items()}
        users = scheduling.Users(self._used or {}, quotas)
        mine = [job for job in queue if job.id in capacities]
        here = scheduling.choose(mine, on_machine, capacities, devices, users)
        there = scheduling.choose_all([job for job in queue if job.id not in capacities], elsewhere, users)
        waits = {**here.waits, **there.waits}
        return scheduling.Choice(here.starts + there.starts, waits, here.leaving, there.has_more)

    def _count(self, running: Sequence[Running]) -> None:
        """Count what running jobs use, which decides whose turn it is; it is written now and then."""
        now = self._clock()
        if self._used is None:
            self._used, self._counted, self._written = self._store.used(), now, now
        for job in running:
            self._used[job.owner] = self._used.get(job.owner, 0.0) + job.cpus * (now - self._counted)
        self._counted = now
        if now >= self._written + _WRITE and self._used:
            self._used = {owner: seconds * decayed(now - self._written) for owner, seconds in self._used.items()}
            self._store.note_used(self._used)
            self._written = now

    def _held_back(self, waiting: Sequence[Waiting], agents: Mapping[str, Agent]) -> tuple[dict[int, str], list[float]]:
        """The jobs that may not start whatever is free, with the reasons, and in how many seconds that may change."""
        waits: dict[int, str] = {}
        looks: list[float] = []
        now = self._clock()
        blocked = self._store.blocked() if waiting else {}
        silent = {id: text for id, agent in agents.items() if (text := self._silence(agent, now))}
        for job in waiting:
            if names := blocked.get(job.id):
                waits[job.id] = f"waits for {', '.join(names[:3])}" + (", …" if len(names) > 3 else "")
            elif (at := self._ready(job, now)) > now:
                waits[job.id] = f"waits {job.delay:g} s before the next try"
                looks.append(at - now)
            elif job.agent in silent or job.agent not in agents:
                waits[job.id] = silent.get(job.agent, f"no coordinator of {job.owner} is running")
            elif isinstance(problem := agents[job.agent].capacity.get(_key(job), ""), str):
                waits[job.id] = problem or "waits for its coordinator"
        return waits, looks

    def _silence(self, agent: Agent, now: float) -> str:
        """Why an agent starts nothing now; empty if it does."""
        if agent.id == self._agent:
            return ""
        seen, heard = self._heard.get(agent.id, (None, now))
        if seen != agent.seen:
            heard = now
        self._heard[agent.id] = (agent.seen, heard)
        return "" if now < heard + SILENT else f"the coordinator of {agent.owner} on {agent.host} is not running"

    def _ready(self, job: Waiting, now: float) -> float:
        """When a job may be tried again. However the time of day jumps, the wait is never longer than its delay."""
        if not job.delay:
            return now
        left = min(max(job.delayed + job.delay - time.time(), 0.0), job.delay)
        return self._ready_at.setdefault((job.id, job.attempts), now + left)

    def _record(self, job: Waiting, devices: Sequence[int]) -> str | None:
        """The id of a new attempt, which is in the store; None if the job may not start any more."""
        self._ready_at.pop((job.id, job.attempts), None)
        self._token = self._token or self._store.fact("store") or ""
        id = f"{self._token}-{job.id}-{job.attempts + 1}-{os.urandom(2).hex()}"
        if not self._store.begin_attempt(job, id, devices, wakes=job.agent != self._agent):
            return None
        assert self._used is not None
        self._used[job.owner] = self._used.get(job.owner, 0.0) + scheduling.START * job.cpus
        return id


def _key(job: Waiting | Running) -> str:
    return target_key(job.environment, job.settings)


def _capacity(job: Waiting | Running, agents: Mapping[str, Agent]) -> Slots | None:
    """The slots of the environment of a job; None where it has a queue of its own."""
    slots = agents[job.agent].capacity.get(_key(job))
    if not isinstance(slots, list) or len(slots) != 3 or not all(isinstance(number, int) for number in slots):
        return None
    return Slots(*slots)
