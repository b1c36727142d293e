"""Cores and memory of jobs: what is enforced by control groups of this machine, and what without them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in, supervisors
from tests.unit.jobs.test_local import HIDES, hidden_by, is_alive
from tests.unit.jobs.test_reconcile import WAITS, begun, outcomes

from leaven.jobs.attempt_processes import hold
from leaven.jobs.control_groups import make_groups, possible_limits, remove
from leaven.jobs.environments.local import Local
from leaven.jobs.limits import Limits
from leaven.jobs.resources import Resources
from leaven.jobs.states import Outcome, State

# Takes 40 MB at a time, in a process that hides, and never more than 2 GB.
TAKES_MEMORY = """
import os, sys, time
if os.fork():
    os.wait()
    sys.exit(9)
taken = []
for _ in range(50):
    taken.append(bytes(range(256)) * 160_000)
    time.sleep(0.02)
"""
# Runs on as many cores as it gets for two seconds; prints how many that were.
TAKES_CORES = """
import os, time
began = time.monotonic()
for _ in range(3):
    if os.fork() == 0:
        while time.monotonic() < began + 2: pass
        os._exit(0)
for _ in range(3): os.wait()
used = os.times()
print((used.children_user + used.children_system) / (time.monotonic() - began), len(os.sched_getaffinity(0)))
"""


TOO_MUCH = "it used more than the 0.2 GB of memory that it may use"
CORES = len(os.sched_getaffinity(0))


@pytest.fixture
def by_groups() -> None:
    if possible_limits() != {"memory", "cpu"}:
        pytest.skip("no control groups can be made here")


def groups() -> set[Path]:
    return {file for file in Path("/sys/fs/cgroup").glob("**/leaven-*") if file.is_dir()}


def run(folder: Path, text: str, **resources: int) -> tuple[State, str, str]:
    """Run a job, which leaves no group; its state, the reason and its log."""
    queue = Queue(settings_in(folder / "jobs"))
    (id,) = queue.submit(order(text, resources=Resources(**resources)))
    (job,) = queue.finish(id)
    log, (attempt,) = queue.log(id), queue.store.attempts(id)
    assert not [group for group in groups() if attempt.id in group.name]
    queue.close()
    return job.state, job.reason, log


def run_without_groups(folder: Path, text: str, **limits: int) -> tuple[dict[str, str], str]:
    """Run a program under a supervisor that can make no control groups; how it ended, and its log."""
    attempt = folder / "attempts" / f"x-{os.urandom(4).hex()}"
    attempt.mkdir(parents=True)
    task = {"attempt": attempt.name, "command": [sys.executable, "-c", text], "folder": "/", "environment": {}}
    (attempt / "task.json").write_text(json.dumps({**task, "grace": 1, **limits}))
    supervise = "from leaven.jobs import limits, supervisor; limits.make_groups = lambda *_: {}; supervisor.main(%r)"
    subprocess.run([sys.executable, "-c", supervise % str(attempt)], check=True, timeout=60)
    return json.loads((attempt / "outcome.json").read_text()), (attempt / "log").read_text()


@pytest.mark.usefixtures("by_groups")
def test_the_memory_of_a_job_is_limited_and_the_reason_reports_it(tmp_path: Path) -> None:
    state, reason, _ = run(tmp_path, TAKES_MEMORY, memory=200_000_000)
    assert (state, reason) == (State.FAILED, TOO_MUCH)
    assert run(tmp_path / "more", TAKES_MEMORY.replace("range(50)", "range(2)"), memory=200_000_000)[1].endswith("9")


def test_memory_is_limited_also_without_groups(tmp_path: Path) -> None:
    found, _ = run_without_groups(tmp_path, TAKES_MEMORY + "time.sleep(60)", memory=200_000_000)
    assert (found["outcome"], found["reason"]) == ("failed", TOO_MUCH)


def test_what_processes_share_counts_once(tmp_path: Path) -> None:
    shares = "import os, time\ntaken = bytes(range(256)) * 400_000\nfor _ in range(3): os.fork()\ntime.sleep(2.5)"
    found, _ = run_without_groups(tmp_path, shares, memory=200_000_000)
    assert found["outcome"] == "succeeded"


@pytest.mark.skipif(CORES < 2, reason="there is one core")
@pytest.mark.usefixtures("by_groups")
def test_a_job_gets_the_time_of_its_cores_and_no_more(tmp_path: Path) -> None:
    _, _, log = run(tmp_path, TAKES_CORES, cpus=1)
    assert float(log.split()[0]) < 1.2


@pytest.mark.skipif(CORES < 2, reason="there is one core")
def test_without_groups_a_job_is_pinned_to_cores_of_its_own(tmp_path: Path) -> None:
    names = "import os; print(*os.sched_getaffinity(0))"
    others = [claim for claim in map(hold, [f"leaven-core-{core}" for core in range(CORES - 1)]) if claim]
    try:
        _, pinned = run_without_groups(tmp_path, names, cores=1)
        _, free = run_without_groups(tmp_path, names, cores=CORES)
    finally:
        for claim in others:
            claim.close()
    assert int(pinned) in os.sched_getaffinity(0)
    assert len(free.split()) == CORES


@pytest.mark.usefixtures("by_groups")
def test_a_child_that_hides_does_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    (id,) = queue.submit(order(HIDES.replace("close_fds=False", "close_fds=True, stdout=2") + WAITS))
    begun(queue, id)
    (pid,) = supervisors(queue.settings.attempts)
    os.kill(pid, 9)
    queue.finish(id)
    assert outcomes(queue, id) == [Outcome.LOST]
    assert not is_alive(hidden_by(queue, id))
    queue.close()


@pytest.mark.usefixtures("by_groups")
def test_groups_of_supervisors_that_were_killed_are_removed_by_the_next(tmp_path: Path) -> None:
    left = make_groups("left", {"memory": 2**30})
    name = hold("leaven-kept")
    kept = make_groups("kept", {"memory": 2**30})
    try:
        Limits(f"x-{os.urandom(4).hex()}", memory=2**30).end()
        assert not groups() & {Path(folder) for folder in left}
        assert {Path(folder) for folder in kept} <= groups()
    finally:
        remove(kept)
        assert name is not None
        name.close()


def test_the_check_of_an_environment_says_how_limits_are_kept(tmp_path: Path) -> None:
    (found,) = [check for check in Local({}, tmp_path, tmp_path).check() if check.what == "limits of jobs"]
    assert ("memory by a control group" in found.found) == ("memory" in possible_limits())
