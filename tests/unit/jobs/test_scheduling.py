"""Which jobs start: priorities, fair turns, slots."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from leaven.jobs.resources import Slots
from leaven.jobs.scheduling import choose


@dataclass(frozen=True)
class Waits:
    id: int
    owner: str = "ann"
    batch: str = ""
    priority: int = 0
    cpus: int = 1
    memory: int = 0
    gpus: int = 0


def started(
    queue: list[Waits], capacity: Slots | None, running: list[Waits] | None = None, **more: object
) -> list[int]:
    return [start.job for start in choose(queue, running or [], capacity, **more)]  # type: ignore[arg-type]


def test_the_oldest_starts_first_and_a_higher_priority_before_it() -> None:
    assert started([Waits(3), Waits(1), Waits(2, priority=5)], Slots(2)) == [2, 1]


def test_owners_take_turns() -> None:
    queue = [*(Waits(n, "ann") for n in range(1, 5)), *(Waits(n, "bob") for n in range(5, 7))]
    assert started(queue, Slots(4)) == [1, 5, 2, 6]


def test_a_single_job_does_not_wait_for_all_trials_of_a_sweep() -> None:
    queue = [*(Waits(n, batch="sweep") for n in range(1, 100)), Waits(100)]
    assert started(queue, Slots(2)) == [1, 100]


def test_a_large_job_is_not_passed_by_small_ones_for_ever() -> None:
    running = [Waits(1), Waits(2)]
    assert started([Waits(3, cpus=4), Waits(4), Waits(5)], Slots(4), running) == []


def test_jobs_that_take_nothing_of_what_a_large_one_needs_may_pass_it() -> None:
    running = [Waits(1, gpus=1)]
    assert started([Waits(2, gpus=2), Waits(3)], Slots(8, gpus=2), running) == [3]
    assert started([Waits(2, gpus=2), Waits(3, gpus=1)], Slots(8, gpus=2), running) == []


def test_a_job_that_never_fits_does_not_keep_others_from_starting() -> None:
    assert started([Waits(1, cpus=8), Waits(2, gpus=1), Waits(3)], Slots(4)) == [3]


def test_gpus_are_given_by_number_and_never_twice() -> None:
    found = choose([Waits(1, gpus=1), Waits(2, gpus=2)], [Waits(9, gpus=1)], Slots(8, gpus=4), [1])
    assert [start.devices for start in found] == [(0,), (2, 3)]


def test_an_environment_with_a_queue_of_its_own_takes_all() -> None:
    assert started([Waits(n, cpus=1000) for n in range(5)], None) == [0, 1, 2, 3, 4]


jobs = st.builds(
    Waits,
    id=st.integers(0, 10**6),
    owner=st.sampled_from("ab"),
    batch=st.sampled_from(["", "s", "t"]),
    priority=st.integers(-2, 2),
    cpus=st.integers(1, 5),
    memory=st.integers(0, 10),
    gpus=st.integers(0, 3),
)
queues = st.lists(jobs, max_size=12, unique_by=lambda job: job.id)


@given(queues, st.integers(0, 8), st.integers(0, 20), st.integers(0, 4))
def test_what_starts_always_fits(queue: list[Waits], cores: int, memory: int, gpus: int) -> None:
    has = Slots(cores, memory, gpus)
    starts = choose(queue, [], has)
    by_id = {job.id: job for job in queue}
    chosen = [by_id[start.job] for start in starts]
    assert len(starts) == len({start.job for start in starts})
    assert sum(job.cpus for job in chosen) <= cores
    assert sum(job.gpus for job in chosen) <= gpus
    assert sum(job.memory for job in chosen) <= memory
    given = [device for start in starts for device in start.devices]
    assert len(given) == len(set(given))
    assert [len(start.devices) for start in starts] == [job.gpus for job in chosen]


@given(queues, st.integers(1, 8))
def test_the_first_in_turn_starts_if_it_fits(queue: list[Waits], cores: int) -> None:
    has = Slots(cores, 100, 4)
    first = min(queue, key=lambda job: (-job.priority, job.id), default=None)
    if first is not None and first.cpus <= cores:
        assert first.id in started(queue, has)
