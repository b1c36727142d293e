"""This machine as an environment: which GPUs jobs get, and what is left of supervisors."""

import contextlib
import os
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in

from leaven.jobs import requests
from leaven.jobs.environments import local
from leaven.jobs.environments.environment import Unreachable
from leaven.jobs.environments.local import Local
from leaven.jobs.requests import RequestError
from leaven.jobs.resources import Resources

SHOWS_GPUS = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"


def nvidia_smi(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a command in the place of NVIDIA's."""
    folder.mkdir(exist_ok=True)
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("visible", "settings", "printed"),
    [
        ("2,3", {}, "2,3"),
        ("GPU-a1,GPU-b2,GPU-c3", {"gpus": 2}, "GPU-a1,GPU-b2"),
        ("5,4,-1,3", {}, "5,4"),
    ],
)
def test_jobs_get_only_gpus_that_the_coordinator_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, settings: dict[str, object], printed: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    given = settings_in(tmp_path / "jobs")
    environment = {key: value for key, value in given.environments["local"].items() if key != "gpus"}
    given.environments["local"] = {**environment, **settings}  # type: ignore[index]
    queue = Queue(given)
    (id,) = queue.submit(order(SHOWS_GPUS, resources=Resources(cpus=1, gpus=2)))
    queue.finish(id)
    assert queue.log(id) == f"{printed}\n"
    with pytest.raises(RequestError, match="3 GPUs are needed, and it has 2 GPUs"):
        queue.submit(order(SHOWS_GPUS, resources=Resources(cpus=1, gpus=3)))
    queue.close()


def test_a_driver_that_does_not_answer_does_not_mean_that_there_are_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ASKING", 0.2)
    nvidia_smi(tmp_path / "bin", "exec sleep 60", monkeypatch)
    environment = Local({}, tmp_path, tmp_path / "wake")
    with pytest.raises(Unreachable, match="nvidia-smi"):
        environment.capacity()
    nvidia_smi(tmp_path / "bin", "echo 'GPU 0: NVIDIA A100'; echo 'GPU 1: NVIDIA A100'", monkeypatch)
    assert environment.capacity().gpus == 2
    nvidia_smi(tmp_path / "bin", "echo 'no driver' >&2; exit 9", monkeypatch)
    assert Local({}, tmp_path, tmp_path / "wake").capacity().gpus == 0


def test_supervisors_that_have_ended_are_not_left_as_zombies(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    before = zombies()
    queue.finish(*queue.submit(*[order("") for _ in range(4)]))
    (last,) = queue.submit(order("import time; time.sleep(600)"))
    queue.turn(lambda: not zombies() - before, "supervisors to be gone", 10)
    requests.cancel(queue.store, [queue.job(last)])
    queue.finish(last)
    queue.close()


def zombies() -> set[int]:
    """The processes that this one has started, which have ended and were not waited for."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = file.read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found.add(int(file.parent.name))
    return found
