"""Jobs on rented machines: tasks by SkyPilot's own loader, and its calls against a command that plays it."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.jobs import sky_command
from tests.unit.jobs.plain_jobs import Queue, order, settings_in
from tests.unit.jobs.test_kubernetes import task
from tests.unit.jobs.test_reconcile import SAVES, outcomes

from leaven import __version__
from leaven.jobs import requests
from leaven.jobs.environments.cloud import Cloud, status_of, task_of
from leaven.jobs.environments.environment import Position, Refused, Unreachable
from leaven.jobs.environments.places import place_of
from leaven.jobs.states import Outcome, State

WORDS = ["python", "-m", "leaven.jobs.agent", "/tmp/leaven/a b", "--store", "s3://b/l/x"]
FULL = {
    "store": "s3://b/l",
    "infra": "aws/us-east-1",
    "gpu": "A100",
    "image": "docker:registry/leaven:0.1",
    "disk": 200,
    "mounts": {"/data": "s3://b/data"},
}
SHAPES = [
    (task(), {"store": "s3://b/l", "spot": False}),
    (task(cpus=8, memory=32 * 10**9, gpus=2), FULL),
    (task(cpus=4, gpus=8, nodes=4, minutes=90.0), FULL),
]


def test_a_task_asks_for_what_the_job_needs() -> None:
    found = task_of(*SHAPES[2][:1], WORDS, SHAPES[2][1])
    assert (found["name"], found["num_nodes"]) == ("leaven-ab12cd-7-1-ffee", 4)
    assert found["resources"]["accelerators"] == "A100:8"
    assert found["resources"]["use_spot"] is True
    assert found["resources"]["job_recovery"] == {"max_restarts_on_errors": 0}
    assert found["run"].splitlines() == [
        'export LEAVEN_NODE="$SKYPILOT_NODE_RANK" LEAVEN_FIRST_NODE="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"',
        'export LEAVEN_NODE_ADDRESS="$(echo "$SKYPILOT_NODE_IPS" | sed -n "$((SKYPILOT_NODE_RANK + 1))p")"',
        "exec python -m leaven.jobs.agent '/tmp/leaven/a b' --store s3://b/l/x",
    ]


@pytest.mark.parametrize(
    ("store", "settings", "setup"),
    [
        ("s3://b/l", {}, f"pip install leaven=={__version__} s3fs"),
        ("gs://b/l", {}, f"pip install leaven=={__version__} gcsfs"),
        ("az://b/l", {}, f"pip install leaven=={__version__} adlfs"),
        ("s3://b/l", {"setup": "pip install mine"}, "pip install mine"),
        ("s3://b/l", {"image": "docker:x"}, None),
    ],
)
def test_a_machine_gets_what_its_store_needs(store: str, settings: dict[str, str], setup: str | None) -> None:
    assert task_of(task(), WORDS, {"store": store, **settings}).get("setup") == setup


def test_variables_of_the_program_are_not_in_the_task() -> None:
    """They may be secret; they are in the attempt's files."""
    assert "secret-7" not in yaml.safe_dump(task_of(task(), WORDS, FULL))


LOADER = """
import sys
from sky import Task
for text in sys.argv[1:]:
    found = Task.from_yaml_str(text)
    (one,) = found.resources
    print(found.name, found.num_nodes, one.use_spot, one.accelerators)
"""


def python_with_skypilot() -> str:
    """A Python that has SkyPilot: one that is named, this one, or one in an environment that is made once."""
    if named := os.environ.get("LEAVEN_SKYPILOT"):
        return named
    if importlib.util.find_spec("sky") is not None:
        return sys.executable
    cache = os.environ.get("LEAVEN_TEST_CACHE")
    if not cache:
        pytest.skip("SkyPilot is not installed: set LEAVEN_SKYPILOT to a Python that has it, or LEAVEN_TEST_CACHE")
    place = Path(cache) / "skypilot"
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", "skypilot"], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"SkyPilot can't be installed: {done.stderr.strip().splitlines()[-1]}")
        (place / "installed").touch()
    return str(python)


@pytest.mark.slow
def test_tasks_are_valid_by_skypilots_loader(tmp_path: Path) -> None:
    texts = [yaml.safe_dump(task_of(one, WORDS, given)) for one, given in SHAPES]
    settings = {**os.environ, "HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    words = [python_with_skypilot(), "-c", LOADER]
    done = subprocess.run([*words, *texts], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "leaven-ab12cd-7-1-ffee 1 False None",
        "leaven-ab12cd-7-1-ffee 1 True {'A100': 2}",
        "leaven-ab12cd-7-1-ffee 4 True {'A100': 8}",
    ]
    wrong = texts[0].replace("num_nodes", "nodes")
    done = subprocess.run([*words, wrong], env=settings, capture_output=True, text=True)
    assert done.returncode != 0
    assert "nodes" in done.stderr


@pytest.mark.slow
def test_the_real_command_takes_the_options_that_are_given(tmp_path: Path) -> None:
    sky = Path(python_with_skypilot()).with_name("sky")
    settings = {**os.environ, "HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    for command, options in (
        ("launch", ("--yes", "--detach-run", "--secret")),
        ("queue", ("--all", "--verbose", "--output")),
        ("cancel", ("--yes", "--name")),
    ):
        done = subprocess.run([sky, "jobs", command, "--help"], env=settings, capture_output=True, text=True)
        assert [option for option in options if option not in done.stdout] == [], done.stderr


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sky"
    folder.mkdir()
    monkeypatch.setenv("SKY_STATE", str(folder))
    return folder


@pytest.fixture
def queue(state: Path, tmp_path: Path) -> Iterator[Queue]:
    command = tmp_path / "sky.sh"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {sky_command.__file__} "$@"\n')
    command.chmod(0o755)
    given: dict[str, Any] = {"kind": "cloud", "sky": str(command), "store": f"file://{tmp_path}/bucket", "poll": 0.1}
    given |= {"python": sys.executable, "scratch": str(tmp_path / "scratch"), "grace": 20.0}
    found = Queue(replace(settings_in(tmp_path / "jobs"), environments={"cloud": given}))
    yield found
    found.close()
    for file in state.glob("*.job"):
        sky_command.kill(file)


def rented(text: str, *arguments: str, **more: object) -> requests.Order:
    return order(text, *arguments, **{"environment": "cloud", **more})


def printed(queue: Queue, id: int) -> str:
    environment = requests.environment_of(queue.settings, "cloud")
    return "".join(
        environment.logs(one.id, one.native, Position(), 10**6)[0].decode() for one in queue.store.attempts(id)
    )


def test_a_job_runs_and_what_it_made_is_fetched(queue: Queue) -> None:
    (id,) = queue.submit(rented("open('result.txt', 'w').write('made'); print('hello')"))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.SUCCEEDED, 1)
    assert printed(queue, id) == "hello\n"
    assert (Path(job.run) / "result.txt").read_text() == "made"


@pytest.mark.slow
def test_a_machine_that_is_taken_is_replaced_within_the_attempt(queue: Queue, state: Path, tmp_path: Path) -> None:
    text = "import os, time; print('begun', os.path.exists('checkpoint'), flush=True); time.sleep(600)"
    (id,) = queue.submit(rented(text))
    queue.turn(lambda: "begun False" in printed(queue, id), "it to begin")
    (attempt,) = queue.store.attempts(id)
    (tmp_path / "bucket" / attempt.id / "run" / "checkpoint").touch()  # as the agent sends it from time to time
    (state / "preempt").touch()
    queue.turn(lambda: "begun True" in printed(queue, id), "it to begin again")
    assert (queue.job(id).attempts, queue.job(id).state) == (1, State.RUNNING)
    requests.cancel(queue.store, [queue.job(id)])
    assert queue.finish(id)[0].state is State.CANCELLED


@pytest.mark.slow
def test_cancelling_lets_the_program_save(queue: Queue) -> None:
    (id,) = queue.submit(rented(SAVES))
    queue.turn(lambda: "begun" in printed(queue, id), "it to begin")
    requests.cancel(queue.store, [queue.job(id)])
    assert queue.finish(id)[0].state is State.CANCELLED
    assert "saved" in printed(queue, id)
    assert outcomes(queue, id) == [Outcome.STOPPED]


@pytest.mark.parametrize(
    "garbage", ["", "<html>\n", '[{"job_name": "leaven-', "[1, 2]", '[{"job_name": "leaven-x-1", "status": null}]']
)
def test_an_answer_that_is_garbage_is_none(queue: Queue, state: Path, garbage: str) -> None:
    (state / "garbage").write_text(garbage)
    with pytest.raises(Unreachable, match=r"the answer of .* can't be understood"):
        requests.environment_of(queue.settings, "cloud").poll({"x-1": "leaven-x-1"})


def test_jobs_of_others_change_nothing(queue: Queue, state: Path) -> None:
    others = [{"job_name": None, "job_id": "x"}, {}, {"job_name": "mine", "status": 7}]
    (state / "garbage").write_text(json.dumps(others))
    assert requests.environment_of(queue.settings, "cloud").poll({"x-1": ""})["x-1"].phase == "absent"


def test_what_is_cancelled_in_skypilot_stays_cancelled() -> None:
    status = status_of({"status": "ManagedJobStatus.CANCELLED"})
    assert (status.outcome, status.knows_why) == (Outcome.CANCELLED, True)
    assert status_of({"status": "SOMETHING_NEW"}).phase == "running"


def test_what_gives_access_to_the_store_is_sent_along(
    queue: Queue, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("DATA_KEY", "b")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    given = {**queue.settings.environments["cloud"], "store": "s3://bucket", "secrets": ["DATA_KEY"]}
    environment = Cloud(given, tmp_path / "attempts", tmp_path / "wake")
    monkeypatch.setattr(environment, "_place", place_of({"store": f"file://{tmp_path}/b"}, tmp_path / "attempts", ""))
    (tmp_path / "run").mkdir()
    one = replace(task(), folder=tmp_path / "attempts" / "x-1", run=tmp_path / "run", attempt="x-1")
    (state / "full").touch()
    environment.submit(one)
    assert json.loads((state / "leaven-x-1.job").read_text())["secrets"] == ["DATA_KEY", "AWS_ACCESS_KEY_ID"]
    monkeypatch.delenv("DATA_KEY")
    with pytest.raises(Refused, match="does not have the variable DATA_KEY"):
        environment.submit(one)


def test_a_job_without_a_machine_reports_it_and_is_cancelled(queue: Queue, state: Path) -> None:
    (state / "full").touch()
    (id,) = queue.submit(rented(SAVES))
    reason = "waits for its turn (SkyPilot: PENDING: In backoff, waiting for resources)"
    queue.turn(lambda: queue.job(id).waits == reason, "the reason")
    requests.cancel(queue.store, [queue.job(id)])
    assert queue.finish(id)[0].state is State.CANCELLED
    assert printed(queue, id) == ""


def test_skypilot_that_does_not_answer_is_marked(queue: Queue, state: Path) -> None:
    (state / "down").touch()
    (id,) = queue.submit(rented("print('ran')"))
    queue.turn(lambda: queue.store.environments()[0].unreachable_since is not None, "it to be marked")
    assert "could not connect" in queue.store.environments()[0].problem
    (state / "down").unlink()
    queue.loop._ask_at = dict.fromkeys(queue.loop._ask_at, 0.0)
    assert queue.finish(id)[0].state is State.SUCCEEDED
    assert queue.job(id).attempts == 1


@pytest.mark.parametrize(
    ("gone", "report"),
    [("store", "`store` of the environment is not set"), ("gpu", "`gpu` of the environment is not set")],
)
def test_what_is_not_set_is_refused(queue: Queue, gone: str, report: str) -> None:
    given = {key: value for key, value in queue.settings.environments["cloud"].items() if key != gone}
    queue.settings = replace(queue.settings, environments={"cloud": given})
    (id,) = queue.submit(rented("", resources=task(gpus=1).resources, retries=3))
    (job,) = queue.finish(id)
    assert (job.state, job.attempts) == (State.FAILED, 1)
    assert job.reason.startswith(report)


def test_missing_parts_are_reported(queue: Queue) -> None:
    found = list(requests.environment_of(queue.settings, "cloud").check())
    assert all(check.is_right for check in found), found
    given = {**queue.settings.environments["cloud"], "sky": "/no/sky", "store": "s3://bucket"}
    changed = replace(queue.settings, environments={"cloud": given})
    bad = [check for check in requests.environment_of(changed, "cloud").check() if not check.is_right]
    assert [(check.what, check.found) for check in bad] == [
        ("the command sky", "not found"),
        ("store s3://bucket", "`s3://bucket` needs s3fs: pip install s3fs"),
    ]
