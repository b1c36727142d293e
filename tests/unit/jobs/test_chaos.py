"""Coordinators, supervisors and programs are killed at random, and nothing is lost."""

import contextlib
import fcntl
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.unit.jobs import postgres
from tests.unit.jobs.plain_jobs import (
    coordinators,
    marked_processes,
    order,
    settings_in,
    supervisors,
    wait_until,
)

from leaven.jobs import coordinator, requests
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED, Outcome, State
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.store.records import Job

# A job notes each beginning and end, and holds a lock that no other process of the same job may have.
PROGRAM = """
import fcntl, os, sys, time
place, seconds, ends = sys.argv[1], float(sys.argv[2]), sys.argv[3]
lock = os.open(place + ".lock", os.O_RDWR | os.O_CREAT)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open(place + ".twice", "w").close()
    sys.exit(3)
with open(place + ".begun", "a") as file:
    file.write(" ".join([os.environ["LEAVEN_ATTEMPT"], str(os.getuid()), os.getcwd()]) + "\\n")
time.sleep(seconds)
if ends == "fails":
    sys.exit("this job always fails")
if ends == "fails once" and not os.path.exists(place + ".failed"):
    open(place + ".failed", "w").close()
    sys.exit(1)
with open(place + ".ended", "a") as file:
    file.write(os.environ["LEAVEN_ATTEMPT"] + "\\n")
"""


@pytest.mark.slow
@pytest.mark.jobs
def test_of_500_short_jobs_each_ends_once_whatever_is_killed(tmp_path: Path) -> None:
    run_chaos(tmp_path, settings_in(tmp_path / "jobs", cores=8), jobs=500, seed=0)


@pytest.mark.slow
@pytest.mark.jobs
def test_the_same_holds_with_postgresql(tmp_path: Path, server: str) -> None:
    url = postgres.new_schema(server, "chaos")
    run_chaos(tmp_path, settings_in(tmp_path / "jobs", url, cores=8), jobs=100, seed=1)


def run_chaos(place: Path, settings: Settings, *, jobs: int, seed: int) -> None:
    store = requests.open_store(settings)
    choose = random.Random(seed)
    kinds = [choose.choices(["ends", "fails", "fails once"], [90, 3, 7])[0] for _ in range(jobs)]
    orders = [
        order(
            PROGRAM, str(place / f"job{n}"), f"{choose.uniform(0, 0.3):.3f}", kind, retries=6 if kind == "fails" else 50
        )
        for n, kind in enumerate(kinds)
    ]
    ids = requests.submit(store, settings, orders)
    cancelled = choose.sample(ids, jobs // 50)
    token = str(store.fact("store"))
    killer = Killer(
        choose,
        {
            "coordinator": (20, lambda: coordinators(settings.folder)),
            "supervisor": (5, lambda: supervisors(settings.attempts)),
            "program": (5, lambda: marked_processes(token)),
        },
    )
    try:
        kill_until_all_ended(settings, store, killer, list(cancelled), choose)
    finally:
        coordinator.stop(settings, store)
    wait_until_nothing_is_left(settings, token)
    assert min(killer.killed.values()) >= jobs // 50, killer.killed
    assert not list(place.glob("*.twice")), "a job ran twice at the same time"
    assert sorted(job.id for job in store.jobs()) == sorted(ids)
    for n, (id, kind) in enumerate(zip(ids, kinds, strict=True)):
        check_ending(store, store.job(str(id)), kind, place / f"job{n}", may_be_cancelled=id in cancelled)
    store.close()


def kill_until_all_ended(
    settings: Settings, store: JobStore, killer: "Killer", to_cancel: list[int], choose: random.Random
) -> None:
    """Start a coordinator whenever there is none, and kill and cancel until every job has ended."""
    ended, last_progress, jobs = 0, time.monotonic(), sum(store.counts().values())
    while ended < jobs:
        coordinator.start(settings, stays=True)
        before, ended = ended, sum(count for state, count in store.counts().items() if state in ENDED)
        last_progress = time.monotonic() if ended > before else last_progress
        assert time.monotonic() < last_progress + 180, store.counts()
        killer.kill(ended)
        if to_cancel and choose.random() < 0.2:
            with contextlib.suppress(requests.RequestError):  # it has ended already
                requests.cancel(store, [store.job(str(to_cancel.pop()))])
        time.sleep(choose.uniform(0.01, 0.1))


def wait_until_nothing_is_left(settings: Settings, token: str) -> None:
    wait_until(lambda: not marked_processes(token), "programs to end")
    wait_until(lambda: not supervisors(settings.attempts), "supervisors to end")
    wait_until(lambda: not coordinators(settings.folder), "coordinators to end")


def check_ending(store: JobStore, job: Job, kind: str, written: Path, *, may_be_cancelled: bool) -> None:
    """The job's state is what its program wrote, and no attempt was begun twice."""
    ended, begun = _lines(written.with_suffix(".ended")), _lines(written.with_suffix(".begun"))
    attempts = store.attempts(job.id)
    succeeded = [one.id for one in attempts if one.outcome is Outcome.SUCCEEDED]
    assert all(one.outcome is not None for one in attempts)
    assert [one.number for one in attempts] == list(range(1, len(attempts) + 1))
    assert len(begun) == len(set(begun)), "an attempt was begun twice"
    assert set(begun) <= {one.id for one in attempts}
    match job.state:
        case State.SUCCEEDED:
            assert kind != "fails"
            assert succeeded == [attempts[-1].id]
            assert ended[-1:] == succeeded
        case State.FAILED | State.LOST:
            assert kind == "fails"
            assert not ended
            assert job.failures == job.retries + 1
        case State.CANCELLED:
            assert may_be_cancelled
            assert not succeeded
        case _:
            raise AssertionError(job)


class Killer:
    """Kills processes at random, at the pace at which jobs end: a slow machine gets as far as a fast one.

    It is given which there are of each kind, and after how many jobs, on average, one is killed.
    """

    def __init__(self, choose: random.Random, kinds: Mapping[str, tuple[int, Callable[[], list[int]]]]) -> None:
        self._choose = choose
        self._kinds = kinds
        self._next = dict.fromkeys(kinds, 1)
        self.killed = dict.fromkeys(kinds, 0)

    def kill(self, ended: int) -> None:
        for what, (every, find) in self._kinds.items():
            found = find() if ended >= self._next[what] else []
            if found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._choose.choice(found), signal.SIGKILL)
                    self.killed[what] += 1
                self._next[what] = ended + self._choose.randint(1, 2 * every)


def _lines(file: Path) -> list[str]:
    """The attempts that a job has noted."""
    return [line.split()[0] for line in file.read_text().splitlines()] if file.is_file() else []


def test_the_lock_in_the_program_of_this_test_works(tmp_path: Path) -> None:
    """Otherwise the test above would prove nothing."""
    place = tmp_path / "job"
    lock = os.open(f"{place}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (tmp_path / "program.py").write_text(PROGRAM)
    assert os.system(f"LEAVEN_ATTEMPT=a python3 {tmp_path}/program.py {place} 0 ends") >> 8 == 3
    assert (tmp_path / "job.twice").exists()
    os.close(lock)
