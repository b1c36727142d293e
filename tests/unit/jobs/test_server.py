"""The HTTP API, by a real server on a free port of this machine."""

import contextlib
import json
import os
import re
import select
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.jobs.plain_jobs import coordinators, plain, wait_until

from leaven.jobs import coordinator, requests, server
from leaven.jobs.settings import Settings, load_settings

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
WAITS = "import time; print('begun', flush=True); time.sleep(600)"


@dataclass
class Api:
    """A server, and the token that it accepts."""

    address: str
    token: str | None
    folder: Path

    def __call__(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(self.address + path, body, method=method)
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                code, text, kind = answer.status, answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as problem:
            code, text, kind = problem.code, problem.read(), problem.headers["Content-Type"]
        return code, json.loads(text) if kind.startswith("application/json") else text.decode()

    def submit(self, text: str, query: str = "") -> tuple[int, Any]:
        return self("POST", f"/jobs?cpus=1&{query}", plain(text).content, Content_Type="application/octet-stream")

    def wait(self, job: str, state: str) -> None:
        wait_until(lambda: self("GET", f"/jobs/{job}")[1]["state"] == state, f"{job} to be {state}")


def served(folder: Path, *words: str, **variables: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "leaven", "coordinator", "serve", "--port", "0", *words],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project; a coordinator that is started in it is stopped."""
    found = tmp_path_factory.mktemp("served")
    text = f'[jobs]\nfolder = "{found}/jobs"\nbackoff = 0.05\n[environments.local]\ncores = 4\ngpus = 0\ngrace = 5\n'
    (found / "leaven.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LEAVEN_JOBS", raising=False)
        patch.delenv("LEAVEN_TOKEN", raising=False)
        patch.setenv("LEAVEN_CONFIG", os.devnull)
        yield found
        settings = load_settings(found)
        store = requests.open_store(settings)
        coordinator.stop(settings, store)
        store.close()
        wait_until(lambda: not coordinators(settings.folder), "the coordinator to end")


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[Api]:
    process = served(folder)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], 120)[0]
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address), process.communicate()
        token = folder / "jobs" / "token"
        assert process.stdout.readline() == f"the token is in {token}\n"
        assert token.stat().st_mode & 0o077 == 0
        yield Api(address, token.read_text(), folder)
    finally:
        process.terminate()
        process.wait(30)


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
    wait_until(lambda: api("GET", "/coordinator")[1]["leader"], "a coordinator")
    assert api("POST", "/coordinator/stop") == (200, {"stopped": True})
    assert api("GET", "/coordinator")[1]["leader"] is None


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


def test_other_machines_need_a_token_that_was_given(folder: Path) -> None:
    process = served(folder, "--host", "0.0.0.0")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert said.startswith(
        "error: 0.0.0.0 can be reached by other machines, and there is no token\nhelp: set LEAVEN_TOKEN"
    )


def test_a_port_that_is_taken_is_reported(api: Api, folder: Path) -> None:
    process = served(folder, "--port", api.address.rpartition(":")[2])
    _, said = process.communicate(timeout=120)
    assert (process.returncode, "Address already in use" in said) == (2, True)


def test_a_store_that_can_not_be_used_does_not_mean_that_there_is_no_such_job(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "leaven.toml").write_text(f'[jobs]\nfolder = "{tmp_path}/jobs"\n')
    process = served(tmp_path)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], 120)[0]
        api = Api(process.stdout.readline().strip(), None, tmp_path)
        process.stdout.readline()
        api.token = (tmp_path / "jobs" / "token").read_text()
        assert api("GET", "/jobs/first")[0] == 404
        with contextlib.closing(sqlite3.connect(tmp_path / "jobs" / "jobs.sqlite")) as store:
            store.execute("DROP TABLE attempts")
            store.execute("DROP TABLE dependencies")
            store.execute("DROP TABLE jobs")
        assert api("GET", "/jobs/first") == (503, {"error": "the store can't be used: no such table: jobs", "help": ""})
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("token", ["two words", "schlüssel", "a\x1bb"])
def test_a_token_that_no_header_can_carry_is_refused(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAVEN_TOKEN", token)
    with pytest.raises(server.ServerError, match="LEAVEN_TOKEN has characters"):
        server.token_of(Settings(tmp_path, ""), "127.0.0.1")
