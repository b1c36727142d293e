"""The HTTP API, by a real server on a free port of this machine."""

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import plain, wait_until

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.unit.jobs.served_api import Api, listening, project, served
from tests.unit.jobs.strangers import Strangers

WAITS = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with project(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[Api]:
    with listening(folder) as found:
        yield found


def test_a_package_is_submitted_followed_and_forgotten(api: Api) -> None:
    code, (job,) = api.submit("print('hello')", "name=first&priority=3")
    assert (code, job["name"], job["state"], job["priority"]) == (201, "first", "queued", 3)
    assert api("GET", "/jobs/first/logs?follow=true") == (200, "hello\n")
    api.wait("first", "succeeded")
    code, found = api("GET", f"/jobs/{job['id']}")
    assert [one["outcome"] for one in found["tries"]] == ["succeeded"]
    assert "first" in [one["name"] for one in api("GET", "/jobs?state=succeeded")[1]]
    assert api("DELETE", "/jobs/first") == (200, {"forgotten": 1})
    assert api("GET", "/jobs/first")[0] == 404


def test_a_job_is_paused_resumed_cancelled_and_tried_again(api: Api) -> None:
    api.submit(WAITS, "name=long")
    api.wait("long", "running")
    assert api("POST", "/jobs/long/pause")[0] == 200
    api.wait("long", "paused")
    code, found = api("PUT", "/jobs/long/priority", b'{"priority": 7}', Content_Type="application/json")
    assert (code, found["priority"]) == (200, 7)
    form = "application/x-www-form-urlencoded"  # as `curl --data` has it
    code, found = api("PUT", "/jobs/long/priority", b'{"priority": 8}', Content_Type=form)
    assert (code, found["priority"]) == (200, 8)
    assert api("PUT", "/jobs/long/priority", b"nonsense")[0] == 422
    assert api("POST", "/jobs/long/resume")[0] == 200
    api.wait("long", "running")
    assert api("POST", "/jobs/long/resume") == (400, {"error": "long is not paused", "help": ""})
    api("POST", "/jobs/long/cancel")
    api.wait("long", "cancelled")
    assert api("POST", "/jobs/long/retry")[0] == 200
    api.wait("long", "running")
    api("POST", "/jobs/long/cancel")
    api.wait("long", "cancelled")
    assert api("DELETE", "/jobs")[1]["forgotten"] >= 1


def test_environments_are_listed_and_checked(api: Api) -> None:
    code, (local,) = api("GET", "/environments")
    assert (code, local["name"], local["kind"], local["has"]["cpus"]) == (200, "local", "local", 4)
    code, found = api("POST", "/environments/local/check")
    assert code == 200
    assert found[-1]["what"] == "a tiny job"
    assert all(one["is_right"] for one in found)
    assert api("POST", "/environments/moon/check")[0] == 404


def test_the_coordinator_is_looked_at_and_stopped(api: Api) -> None:
    assert api("POST", "/coordinator/start")[0] == 200
    wait_until(lambda: api("GET", "/coordinator")[1]["coordinator"], "a coordinator")
    assert api("POST", "/coordinator/stop") == (200, {"stopped": True})
    assert api("GET", "/coordinator")[1]["coordinator"] is None


@pytest.mark.parametrize("token", [None, "", "wrong", "ü"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/jobs"), ("POST", "/jobs"), ("DELETE", "/jobs")])
def test_without_the_token_nothing_is_done(api: Api, token: str | None, method: str, path: str) -> None:
    stranger = Api(api.address, token, api.folder)
    if token == "ü":
        stranger.token = "\xfc"
    assert stranger(method, path) == (
        401,
        {"error": "the token is missing or wrong", "help": "send `Authorization: Bearer TOKEN`"},
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "report"),
    [
        ("GET", "/jobs/nobody", None, 404, "there is no job `nobody`"),
        ("GET", "/nothing", None, 404, "Not Found"),
        ("GET", "/jobs?state=odd", None, 422, "`0`: Input should be 'queued'"),
        ("GET", "/jobs?limit=0", None, 422, "`limit`: Input should be greater than or equal to 1"),
        ("POST", "/jobs", b"hello", 400, "the package is not a job package: File is not a zip file"),
        ("POST", "/jobs?environment=moon", "job", 400, "there is no environment `moon`"),
        ("POST", "/jobs?gpus=8", "job", 400, "local can't run this job: 8 GPUs are needed, and it has no GPUs"),
        ("POST", "/jobs?memory=much", "job", 400, "`much` must be a size of memory, such as 16GB"),
        ("POST", "/jobs?name=a&after=a", "job", 400, "these jobs wait for each other: a → a"),
        ("POST", "/jobs?name=../x", "job", 400, "`../x` can't be the name of a job"),
        ("POST", "/jobs?sweep=true", "job", 400, "the recipe has no `sweep`"),
        ("POST", "/jobs/nobody/cancel", None, 404, "there is no job `nobody`"),
    ],
)
def test_bad_input_is_answered_with_a_report(
    api: Api, method: str, path: str, body: bytes | str | None, code: int, report: str
) -> None:
    sent = plain("pass").content if body == "job" else body
    assert not isinstance(sent, str)
    found = api(method, path, sent, Content_Type="application/octet-stream")
    assert found[0] == code
    assert found[1]["error"].startswith(report)


def test_what_there_is_can_be_read_without_the_token(api: Api) -> None:
    code, found = Api(api.address, None, api.folder)("GET", "/openapi.json")
    assert code == 200
    assert {"/jobs", "/jobs/{job}", "/jobs/{job}/logs", "/jobs/{job}/cancel", "/environments"} <= set(found["paths"])


def test_a_short_token_is_refused_where_other_machines_can_guess_it(folder: Path) -> None:
    process = served(folder, "--host", "0.0.0.0", LEAVEN_TOKEN="hunter2")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert said.startswith("error: 0.0.0.0 can be reached by other machines, and the token of LEAVEN_TOKEN is short")


def test_a_port_that_is_taken_is_reported(api: Api, folder: Path) -> None:
    process = served(folder, "--port", api.address.rpartition(":")[2])
    _, said = process.communicate(timeout=120)
    assert (process.returncode, "Address already in use" in said) == (2, True)


def test_a_store_that_can_not_be_used_does_not_mean_that_there_is_no_such_job(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "leaven.toml").write_text(f'[jobs]\nfolder = "{tmp_path}/jobs"\n')
    with listening(tmp_path) as api:
        assert api("GET", "/jobs/first")[0] == 404
        with contextlib.closing(sqlite3.connect(tmp_path / "jobs" / "jobs.sqlite")) as store:
            store.execute("DROP TABLE attempts")
            store.execute("DROP TABLE dependencies")
            store.execute("DROP TABLE jobs")
        assert api("GET", "/jobs/first") == (503, {"error": "the store can't be used: no such table: jobs", "help": ""})


def test_a_token_is_renewed_while_the_server_runs(api: Api, folder: Path) -> None:
    def token(*words: str) -> str:
        command = [sys.executable, "-m", "leaven", "coordinator", "token", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    old = api.token
    assert token() == old
    api.token = token("--renew")
    assert api.token != old
    assert api("GET", "/coordinator")[0] == 200
    assert Api(api.address, old, folder)("GET", "/coordinator")[0] == 401


def test_a_server_ends_while_a_log_is_followed(folder: Path, api: Api) -> None:
    api.submit(WAITS, "name=endless")
    api.wait("endless", "running")
    with listening(folder) as other:
        wait_until(lambda: (folder / "jobs" / "attempts").exists())
        following = other.open("GET", "/jobs/endless/logs?follow=true")
        assert following.readline() == b"begun\n"
    following.close()
    assert api("DELETE", "/jobs/endless")[0] == 400
    assert api("DELETE", "/jobs/endless?force=true") == (200, {"forgotten": 1})


@pytest.mark.slow
def test_hostile_requests_leave_the_server_nearly_as_small_as_it_was(tmp_path: Path) -> None:
    with project(tmp_path) as folder, listening(folder) as api:
        assert api("GET", "/jobs")[0] == 200
        before = api.memory()
        strangers = [Strangers(api, list, seed) for seed in range(6)]
        for one in strangers:
            one.start()
        wait_until(lambda: sum(one.answers.total() for one in strangers) > 500, "500 answers")
        for one in strangers:
            one.end()
        assert [one.wrong for one in strangers] == [[]] * 6
        assert api.memory() - before < 45_000_000
