"""Which jobs start: priorities, fair turns, slots."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from leaven.jobs.resources import Slots
from leaven.jobs.scheduling import Choice, Quota, Users, choose, choose_all


@dataclass(frozen=True)
class Waits:
    id: int
    owner: str = "ann"
    batch: str = ""
    priority: int = 0
    cpus: int = 1
    memory: int = 0
    gpus: int = 0
    minutes: float | None = None
    seconds_left: float = math.inf
    is_preemptible: bool = False
    is_leaving: bool = False

    @property
    def slots(self) -> Slots:
        return Slots(self.cpus, self.memory, self.gpus)


def chosen_of(
    queue: list[Waits], has: Slots, running: list[Waits] | None = None, devices: list[int] | None = None
) -> Choice:
    return choose(queue, running or [], {job.id: has for job in queue}, devices or [])


def started(queue: list[Waits], has: Slots, running: Sequence[Waits] = ()) -> list[int]:
    return [start.job for start in chosen_of(queue, has, running).starts]


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
    found = chosen_of([Waits(1, gpus=1), Waits(2, gpus=2)], Slots(8, gpus=4), [Waits(9, gpus=1)], [1])
    assert [start.devices for start in found.starts] == [(0,), (2, 3)]


def test_each_job_has_the_limits_of_its_own_settings() -> None:
    queue = [Waits(1, cpus=2), Waits(2, cpus=2)]
    found = choose(queue, [Waits(9)], {1: Slots(2), 2: Slots(8)})
    assert found.starts == [] or [start.job for start in found.starts] == [2]
    assert found.waits[1] == "waits until 2 cores, no GPUs are free"


def test_waiting_jobs_have_a_reason() -> None:
    found = chosen_of([Waits(1, cpus=9), Waits(2), Waits(3, cpus=4), Waits(4), Waits(5)], Slots(4))
    assert [start.job for start in found.starts] == [2]
    assert found.waits == {
        1: "9 cores are needed, and it has 4 cores",
        3: "waits until 4 cores, no GPUs are free",
        4: "waits for its turn",
        5: "waits for its turn",
    }


def test_an_environment_with_a_queue_of_its_own_takes_all() -> None:
    found = choose_all([Waits(n, cpus=1000) for n in range(5)], [])
    assert [start.job for start in found.starts] == [0, 1, 2, 3, 4]


def test_a_long_queue_is_handed_over_in_parts_and_a_sweep_as_a_whole() -> None:
    queue = [*(Waits(n) for n in range(1000)), *(Waits(n, batch="sweep", priority=1) for n in range(1000, 1100))]
    found = choose_all(queue, [])
    assert [start.job for start in found.starts] == [*range(1000, 1100), *range(4)]
    assert found.waits == dict.fromkeys(range(4, 1000), "waits for its turn")
    assert found.has_more
    assert not choose_all(queue[:5], []).has_more


def test_in_turn_means_in_turn_also_where_one_job_fits_at_a_time() -> None:
    queue = [*(Waits(n, "ann") for n in range(1, 7)), *(Waits(n, "bob") for n in range(7, 10))]
    used: dict[str, float] = {}
    order = []
    while queue:
        (start,) = choose(queue, [], {job.id: Slots(1) for job in queue}, [], Users(used)).starts
        (job,) = (job for job in queue if job.id == start.job)
        queue.remove(job)
        used[job.owner] = used.get(job.owner, 0.0) + 60.0
        order.append(job.owner)
    assert order == ["ann", "bob"] * 3 + ["ann"] * 3


def test_the_user_with_less_usage_comes_first() -> None:
    queue = [Waits(1, "ann"), Waits(2, "bob")]
    found = choose(queue, [], dict.fromkeys((1, 2), Slots(1)), [], Users({"ann": 3600.0, "bob": 60.0}))
    assert [start.job for start in found.starts] == [2]
    found = choose(
        [Waits(1, "ann", priority=1), queue[1]], [], dict.fromkeys((1, 2), Slots(1)), [], Users({"ann": 9.0})
    )
    assert [start.job for start in found.starts] == [1]


def test_short_jobs_start_before_a_large_one_that_has_to_wait_longer() -> None:
    running = [Waits(1, cpus=3, seconds_left=3600.0)]
    large = Waits(2, cpus=4)
    assert started([large, Waits(3, minutes=30)], Slots(4), running) == [3]
    assert started([large, Waits(3, minutes=90)], Slots(4), running) == []
    assert started([large, Waits(3, minutes=30, cpus=2)], Slots(4), running) == []
    assert started([large, Waits(3, minutes=30)], Slots(4), [Waits(1, cpus=3)]) == []


def test_quotas_limit_what_a_user_has_at_a_time() -> None:
    users = Users(quotas={"ann": Quota(cpus=2), "bob": Quota(jobs=1, gpus=0)})
    queue = [*(Waits(n, "ann") for n in (1, 2, 3)), Waits(4, "bob"), Waits(5, "bob"), Waits(6, "cid")]
    found = choose(queue, [], {job.id: Slots(8, gpus=1) for job in queue}, [], users)
    assert sorted(start.job for start in found.starts) == [1, 2, 4, 6]
    assert found.waits == {3: "the quota of ann is 2 cores at a time", 5: "the quota of bob is 1 job at a time"}
    assert sorted(start.job for start in choose_all(queue, [], users).starts) == [1, 2, 4, 6]


def test_a_higher_priority_takes_the_place_of_preemptible_jobs() -> None:
    low, lowest = Waits(1, cpus=2, is_preemptible=True), Waits(2, cpus=2, priority=-1, is_preemptible=True)
    found = chosen_of([Waits(3, cpus=2, priority=1)], Slots(4), [low, lowest])
    assert (found.starts, found.leaving) == ([], [2])
    assert chosen_of([Waits(3, cpus=4, priority=1)], Slots(4), [low, lowest]).leaving == [2, 1]
    assert chosen_of([Waits(3, cpus=2)], Slots(4), [low, lowest]).leaving == [2]
    assert chosen_of([Waits(3, cpus=4)], Slots(4), [low, lowest]).leaving == []  # would not be enough
    kept = replace(lowest, is_preemptible=False)
    assert chosen_of([Waits(3, cpus=4, priority=1)], Slots(4), [low, kept]).leaving == []
    leaving = replace(lowest, is_leaving=True)
    assert chosen_of([Waits(3, cpus=2, priority=1)], Slots(4), [low, leaving]).leaving == []


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
    starts = chosen_of(queue, has).starts
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
