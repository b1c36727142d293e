"""What the program of a job finds in its environment."""

import json
from pathlib import Path

import pytest

from leaven.jobs.environments.environment import Task
from leaven.jobs.environments.places import Drive
from leaven.jobs.resources import Resources
from leaven.jobs.states import Entry


@pytest.mark.parametrize(("cpus", "processes", "threads"), [(1, 1, "1"), (4, 1, "4"), (4, 2, "2"), (1, 2, "1")])
def test_the_processes_of_a_job_share_its_cores(cpus: int, processes: int, threads: str, tmp_path: Path) -> None:
    resources = Resources(cpus=cpus, processes=processes)
    task = Task(
        "x-1", tmp_path, tmp_path, tmp_path, Entry.PROGRAM, (), resources, variables={"OMP_WAIT_POLICY": "active"}
    )
    found = _environment(task)
    assert found["OMP_NUM_THREADS"] == threads
    assert found["OMP_WAIT_POLICY"] == "active"  # what the user sets counts
    plain = Task("x-1", tmp_path, tmp_path, tmp_path, Entry.PROGRAM, (), resources)
    assert _environment(plain)["OMP_WAIT_POLICY"] == "passive"


def _environment(task: Task) -> dict[str, str]:
    Drive({}, task.folder.parent, "python").send(task)
    described = json.loads((task.folder / "task.json").read_text())
    return dict(described["environment"])
