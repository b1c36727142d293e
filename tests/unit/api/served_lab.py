"""A lab for tests: a real server on a free port of this machine, and a client of it."""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "/api/v1"


@dataclass
class ServedLab:
    """A server, and the token that it accepts."""

    address: str
    token: str | None
    pid: int

    def open(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """An answer that has begun; a body that is not bytes is sent as JSON."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, content, method=method)
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        if not isinstance(body, bytes) and body is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        return urllib.request.urlopen(request, timeout=600)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status of an answer, and its content: JSON, lines of JSON, or bytes."""
        try:
            with self.open(method, path, body, **headers) as answer:
                code, content, kind = answer.status, answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as problem:
            code, content, kind = problem.code, problem.read(), problem.headers["Content-Type"]
        if kind.startswith("application/json"):
            return code, json.loads(content)
        return code, [json.loads(line) for line in content.splitlines()] if "ndjson" in kind else content

    def get(self, path: str) -> Any:
        code, found = self.ask("GET", PREFIX + path)
        assert code == 200, found
        return found

    def post(self, path: str, body: Any, **headers: str) -> Any:
        code, found = self.ask("POST", PREFIX + path, body, **headers)
        assert code in (200, 201), found
        return found

    def refused(self, path: str, body: Any) -> tuple[int, str]:
        """The status and the headline of a refusal."""
        code, found = self.ask("POST", PREFIX + path, body)
        return code, found["error"]

    def memory(self) -> int:
        """The memory that the server itself has, in bytes."""
        return int(Path(f"/proc/{self.pid}/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


@contextlib.contextmanager
def serving_lab(folder: Path, *words: str, **variables: str) -> Iterator[ServedLab]:
    """A lab on a folder, which has nothing to complain about."""
    errors = folder.parent / f"{folder.name}-errors"
    token = folder.parent / f"{folder.name}-token"
    command = [sys.executable, "-m", "leaven", "lab", *words, "--api-only", "--port", "0", "--token-file", str(token)]
    settings = {"LEAVEN_CONFIG": os.devnull, "LEAVEN_JOBS": str(folder.parent / "jobs"), **variables}
    environment = {name: value for name, value in os.environ.items() if name != "LEAVEN_TOKEN"}
    with errors.open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment | settings, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], 120)[0]
        link = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/docs\?token=\S+", link), (link, errors.read_text())
        yield ServedLab(link.partition("/docs")[0], token.read_text(), process.pid)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
        assert errors.read_text() == ""
