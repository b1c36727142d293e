"""This machine as an environment: which GPUs jobs get, and what is left of supervisors."""

import contextlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in, supervisors, wait_until
from tests.unit.jobs.test_chaos import PROGRAM as HOLDS_A_LOCK
from tests.unit.jobs.test_reconcile import SAVES, WAITS, begun, outcomes

from leaven.jobs import requests
from leaven.jobs.environments import local
from leaven.jobs.environments.environment import Status, Unreachable
from leaven.jobs.environments.local import Local
from leaven.jobs.requests import RequestError
from leaven.jobs.resources import Resources
from leaven.jobs.states import Outcome, State

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


def zombies(parent: int | None = None) -> set[int]:
    """The children of a process, by default this one, which have ended and were not waited for."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, of = file.read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(of) == (parent or os.getpid()):
                found.add(int(file.parent.name))
    return found


class TestFolderRemoved:
    """What happens to attempts whose folder is deleted while they run."""

    def test_nothing_runs_twice_and_how_it_ended_is_known(self, tmp_path: Path) -> None:
        queue = Queue(settings_in(tmp_path / "jobs"))
        (id,) = queue.submit(order(HOLDS_A_LOCK, str(tmp_path / "job"), "1.5", "ends", retries=3))
        queue.turn_until(id, State.RUNNING)
        wait_until(lambda: (tmp_path / "job.begun").exists())
        shutil.rmtree(queue.settings.attempts)
        queue.restart()
        (job,) = queue.finish(id)
        assert not (tmp_path / "job.twice").exists()
        assert (job.state, job.attempts) == (State.SUCCEEDED, 1)
        queue.close()

    def test_it_can_still_be_cancelled_and_saves(self, tmp_path: Path) -> None:
        queue = Queue(settings_in(tmp_path / "jobs"))
        (id,) = queue.submit(order(SAVES))
        begun(queue, id)
        shutil.rmtree(queue.settings.attempts)
        queue.restart()
        requests.cancel(queue.store, [queue.job(id)])
        (job,) = queue.finish(id)
        assert (job.state, outcomes(queue, id)) == (State.CANCELLED, [Outcome.STOPPED])
        assert queue.log(id) == "saved\n"
        queue.close()

    def test_with_its_supervisor_killed_too_it_is_lost_once_nothing_of_it_lives(self, tmp_path: Path) -> None:
        queue = Queue(settings_in(tmp_path / "jobs"))
        (id,) = queue.submit(order(HIDES + WAITS, retries=1))
        begun(queue, id)
        hidden = hidden_by(queue, id)
        (pid,) = supervisors(queue.settings.attempts)
        shutil.rmtree(queue.settings.attempts)
        os.kill(pid, signal.SIGKILL)
        queue.restart()
        queue.turn(lambda: len(queue.store.attempts(id)) == 2, "another attempt")
        assert outcomes(queue, id) == [Outcome.LOST, None]
        assert not is_alive(hidden)
        requests.cancel(queue.store, [queue.job(id)])
        queue.finish(id)
        queue.close()


# starts a process that can't be found by its environment, its session or its parent, and prints its number
HIDES = """
import os, subprocess, sys
if os.fork() == 0:
    os.setsid()
    hidden = subprocess.Popen(["env", "-i", "sleep", "600"], close_fds=False)
    print(f"hidden {hidden.pid}", flush=True)
    os._exit(0)
os.wait()
"""


def hidden_by(queue: Queue, job: int) -> int:
    return int(queue.log(job).split("hidden ")[1].split()[0])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '"succeeded"',
        "{}",
        '{"outcome": "exploded"}',
        '{"outcome": ["succeeded"]}',
        '{"outcome": {"a": 1}}',
        '{"outcome": null, "exit": 1}',
        "[" * 100_000,
        '{"outcome": 1e999}',
        '{"outcome": "succ',
        "\xff\xfe",
    ],
)
def test_an_outcome_that_can_not_be_read_is_a_loss_and_stops_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "outcome.json").write_text(text, encoding="latin-1")
    found = Local({}, tmp_path, tmp_path / "wake").poll({"x": "x"})["x"]
    assert (found.phase, found.outcome) == ("ended", Outcome.LOST)
    assert found.reason == "how it ended can't be read: outcome.json is damaged"


@pytest.mark.parametrize("code", ["1" + "0" * 40, "true", "[1]", '"7"', "1.5", "1e999"])
def test_an_exit_code_that_is_none_is_not_believed(tmp_path: Path, code: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "outcome.json").write_text(f'{{"outcome": "failed", "exit": {code}, "reason": [1]}}')
    found = Local({}, tmp_path, tmp_path / "wake").poll({"x": "x"})["x"]
    assert found == Status("ended", Outcome.FAILED, None, "[1]")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"grace": "soon"}', '{"grace": 1e999}', '{"grace": -3}', "{", "[" * 99_999]
)
def test_whatever_is_in_the_file_that_asks_for_a_stop_it_is_one(tmp_path: Path, text: str) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    (id,) = queue.submit(order(SAVES))
    begun(queue, id)
    folder = queue.settings.attempts / queue.store.attempts(id)[0].id
    (folder / "begun.json").write_text(text)
    (folder / "stop.new").write_text(text)
    (folder / "stop.new").rename(folder / "stop.json")
    queue.turn(lambda: outcomes(queue, id)[0] is not None)
    assert (queue.log(id).count("saved"), outcomes(queue, id)[0]) == (1, Outcome.STOPPED)
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)
    queue.close()


@pytest.mark.parametrize("text", ["[]", '{"outcome": ["a"]}', '{"outcome": 5, "reason": {}}', "\x00"])
def test_an_odd_report_of_a_program_is_ignored(tmp_path: Path, text: str) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    tells = f"import os; open(os.environ['LEAVEN_OUTCOME'], 'w').write({text!r})"
    pipes = "import os; os.mkfifo(os.environ['LEAVEN_OUTCOME'])"
    ids = queue.submit(order(tells), order(pipes))
    assert [job.state for job in queue.finish(*ids)] == [State.SUCCEEDED] * 2
    queue.close()


def test_files_of_jobs_are_private_and_programs_get_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAVEN_TOKEN", "secret")
    monkeypatch.setenv("LEAVEN_JOBS_STORE", "postgresql://me:secret@host/db")
    before = os.umask(0o022)
    try:
        queue = Queue(settings_in(tmp_path / "jobs"))
        text = """
import json, os
os.makedirs(os.path.join(os.path.dirname(__file__), "made"))
open(os.path.join(os.path.dirname(__file__), "made", "file"), "w").close()
with open(f"/proc/{os.getppid()}/environ") as file:
    print(json.dumps([dict(os.environ), file.read()]))
"""
        (id,) = queue.submit(order(text))
        (job,) = queue.finish(id)
    finally:
        os.umask(before)
    assert "secret" not in queue.log(id)
    folders = (queue.settings.attempts, queue.settings.packages, Path(job.run))
    files = [file for folder in folders for file in (folder, *folder.rglob("*"))]
    assert len(files) > 8
    assert json.loads(queue.log(id))[0]["LEAVEN_ATTEMPT"]
    open_to_others = [f"{file}: {file.stat().st_mode:o}" for file in files if file.stat().st_mode & 0o077]
    assert not open_to_others
    queue.close()


def test_children_that_hide_end_with_the_job(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    closing = HIDES.replace("close_fds=False", "close_fds=True, stdout=2")
    ended, cancelled = queue.submit(order(closing), order(closing + WAITS))
    queue.finish(ended)
    assert not is_alive(hidden_by(queue, ended))
    begun(queue, cancelled)
    assert is_alive(hidden_by(queue, cancelled))
    requests.cancel(queue.store, [queue.job(cancelled)])
    queue.finish(cancelled)
    assert not is_alive(hidden_by(queue, cancelled))
    queue.close()


def test_orphans_that_have_ended_are_not_left_as_zombies(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    text = "import os\nfor _ in range(20):\n if os.fork() == 0:\n  os.fork()\n  os._exit(0)\n os.wait()\n"
    (id,) = queue.submit(order(text + WAITS))
    begun(queue, id)
    (supervisor,) = supervisors(queue.settings.attempts)
    wait_until(lambda: not zombies(supervisor), "orphans to be forgotten", 10)
    requests.cancel(queue.store, [queue.job(id)])
    queue.finish(id)
    queue.close()
