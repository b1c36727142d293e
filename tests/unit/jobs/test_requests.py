"""What users may ask for: which jobs an order becomes, and what each of them gets."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in, sweep

from leaven.jobs import requests
from leaven.jobs.resources import Resources

PACKED = Resources(cpus=8, memory=4 * 10**9, gpus=2, processes=2, minutes=60.0)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """A queue whose jobs would run on a cluster; its loop is not turned."""
    settings = settings_in(tmp_path / "jobs")
    cluster = {"kind": "ray", "address": "http://127.0.0.1:1"}
    found = Queue(replace(settings, environments={**settings.environments, "cluster": cluster}))
    yield found
    found.close()


def swept(**more: object) -> requests.Order:
    return order("", package=sweep(""), environment="cluster", **more)


def test_the_best_trial_is_finished_by_one_process_wherever_the_trials_run(queue: Queue) -> None:
    wanted = Resources(cpus=4, gpus=2, processes=2, nodes=3, minutes=60.0)
    *trials, end = [queue.job(id) for id in queue.submit(swept(resources=wanted, is_sweep=True))]
    assert [job.resources for job in trials] == [wanted, wanted]
    assert end.resources == replace(wanted, processes=1, nodes=1)


@pytest.mark.parametrize("wanted", [Resources(nodes=2), Resources(processes=2)])
def test_a_sweep_in_one_job_is_refused_more_than_it_would_use(queue: Queue, wanted: Resources) -> None:
    with pytest.raises(requests.RequestError, match="in one process on one machine") as problem:
        queue.submit(swept(resources=wanted))
    assert problem.value.help.startswith("--sweep makes a job of each trial")
    assert len(queue.submit(swept(resources=Resources()))) == 1


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, PACKED),
        ({"length": "12h"}, replace(PACKED, minutes=720.0)),
        ({"memory": "1GB", "cpus": 2, "nodes": 3}, replace(PACKED, memory=10**9, cpus=2, nodes=3)),
        ({"gpus": 0}, replace(PACKED, gpus=0, processes=1)),
        ({"gpus": 4}, replace(PACKED, gpus=4, processes=4)),
        ({"gpus": 4, "processes": 1}, replace(PACKED, gpus=4, processes=1)),
        ({"processes": 16}, replace(PACKED, processes=16, cpus=16)),
    ],
)
def test_defaults_are_the_resources_that_a_job_was_packed_with(
    queue: Queue, wanted: dict[str, Any], found: Resources
) -> None:
    assert requests.resources(queue.settings, "local", PACKED, **wanted) == found


def test_a_recipe_gets_the_default_resources(queue: Queue) -> None:
    settings = queue.settings
    assert requests.resources(settings, "local") == Resources(cpus=4)
    found = requests.resources(settings, "local", gpus=2, length="90m")
    assert found == Resources(cpus=4, gpus=2, processes=2, minutes=90)


def test_a_gpu_brings_as_many_cores_as_the_settings_say(queue: Queue) -> None:
    cluster = {**queue.settings.environments["cluster"], "cores_per_gpu": 6}
    settings = replace(queue.settings, environments={"cluster": cluster})
    assert requests.resources(settings, "cluster", gpus=2).cpus == 12
    assert requests.resources(settings, "cluster", PACKED, gpus=2, cpus=3).cpus == 3
    assert requests.resources(settings, "cluster", PACKED).cpus == 8
