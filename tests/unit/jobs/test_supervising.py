"""What the program of a job finds in its environment."""

from pathlib import Path

import pytest

from leaven.jobs.environments.environment import Task
from leaven.jobs.environments.supervising import described
from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry


@pytest.mark.parametrize(("cpus", "processes", "threads"), [(1, 1, "1"), (4, 1, "4"), (4, 2, "2"), (1, 2, "1")])
def test_the_processes_of_a_job_share_its_cores(cpus: int, processes: int, threads: str, tmp_path: Path) -> None:
    resources = Resources(cpus=cpus, processes=processes)
    task = Task(
        "x-1", tmp_path, tmp_path, tmp_path, Entry.PROGRAM, (), resources, variables={"OMP_WAIT_POLICY": "active"}
    )
    found = described(task, python="python", folder=".", grace=1.0)["environment"]
    assert found["OMP_NUM_THREADS"] == threads
    assert found["OMP_WAIT_POLICY"] == "active"  # what the user sets counts
    plain = Task("x-1", tmp_path, tmp_path, tmp_path, Entry.PROGRAM, (), resources)
    assert described(plain, python="python", folder=".", grace=1.0)["environment"]["OMP_WAIT_POLICY"] == "passive"
