"""The HTTP API for tests: a real server on a free port of this machine, and a client of it."""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.jobs.plain_jobs import coordinators, plain, wait_until

from leaven.jobs import coordinator, requests
from leaven.jobs.settings import load_settings


@dataclass
class Api:
    """A server, and the token that it accepts."""

    address: str
    token: str | None
    folder: Path
    pid: int = 0

    def open(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
        """An answer that has begun."""
        request = urllib.request.Request(self.address + path, body, method=method)
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        return urllib.request.urlopen(request, timeout=60)

    def __call__(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        try:
            with self.open(method, path, body, **headers) as answer:
                code, text, kind = answer.status, answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as problem:
            code, text, kind = problem.code, problem.read(), problem.headers["Content-Type"]
        return code, json.loads(text) if kind.startswith("application/json") else text.decode()

    def submit(self, text: str, query: str = "") -> tuple[int, Any]:
        return self("POST", f"/jobs?cpus=1&{query}", plain(text).content, Content_Type="application/octet-stream")

    def peak(self) -> int:
        """The most memory that the server has had, in bytes."""
        return self._kilobytes("VmHWM") * 1024

    def memory(self) -> int:
        """The memory that the server has, in bytes."""
        return self._kilobytes("VmRSS") * 1024

    def _kilobytes(self, what: str) -> int:
        return int(Path(f"/proc/{self.pid}/status").read_text().split(f"{what}:")[1].split()[0])

    def wait(self, job: str, state: str) -> None:
        wait_until(lambda: self("GET", f"/jobs/{job}")[1]["state"] == state, f"{job} to be {state}")


def served(
    folder: Path, *words: str, before: Sequence[str] = (), stderr: Any = subprocess.PIPE, **variables: str
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*before, sys.executable, "-m", "leaven", "coordinator", "serve", "--port", "0", *words],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


@contextlib.contextmanager
def listening(folder: Path, jobs: Path | None = None, before: Sequence[str] = (), **variables: str) -> Iterator[Api]:
    """A server of its own for a project, which has nothing to complain about. `before` is what starts it."""
    errors = Path(tempfile.mkdtemp(dir=folder)) / "errors"
    with errors.open("w") as log:  # it would wait for a pipe that nobody reads
        process = served(folder, before=before, stderr=log, **variables)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], 120)[0]
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address), process.communicate()
        token = (jobs or folder / "jobs") / "token"
        assert process.stdout.readline() == f"the token is in {token}\n"
        assert token.stat().st_mode & 0o077 == 0
        yield Api(address, token.read_text(), folder, process.pid)
    finally:
        process.terminate()
        process.wait(30)
        assert errors.read_text() == ""


@contextlib.contextmanager
def project(folder: Path) -> Iterator[Path]:
    """A project in a folder; a coordinator that is started in it is stopped."""
    text = f'[jobs]\nfolder = "{folder}/jobs"\nbackoff = 0.05\n[environments.local]\ncores = 4\ngpus = 0\ngrace = 5\n'
    (folder / "leaven.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LEAVEN_JOBS", raising=False)
        patch.delenv("LEAVEN_TOKEN", raising=False)
        patch.setenv("LEAVEN_CONFIG", os.devnull)
        yield folder
        settings = load_settings(folder)
        store = requests.open_store(settings)

        def is_ended() -> bool:
            coordinator.stop(settings, store)
            return not coordinators(settings.folder)

        wait_until(is_ended, "the coordinator to end")
        store.close()
