"""A Ray cluster that is running: each attempt is a Ray job, whose id has the attempt's in it.

Ray is asked over its Jobs REST API, with a time-out: the coordinator needs no Ray, whose client has none. A job on one
node is the attempt's agent itself; one on several is a driver that starts an agent on each (`ray_nodes.py`).

Not every version of Ray stops a job that waits for resources. One that was asked to stop before it began counts as
stopped: its agent, if Ray ever starts it, sees the request and does nothing.
"""

import http.client
import json
import os
import shlex
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from leaven.jobs.environments.answers import Rejected, not_understood, table, tables
from leaven.jobs.environments.environment import Check, Refused, Task, Unreachable
from leaven.jobs.environments.following import PREFIX, EngineEnvironment, EngineStatus
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.launching import agent_command
from leaven.jobs.states import Outcome

_NEEDS = "needs"  # the key of a job's metadata that says what it needs
_ADDRESS = "http://127.0.0.1:8265"
_LOST = ("died", "node", "actor")  # what Ray says of a job whose machine is gone
_NO_ROOM = ("failed to start within", "could not be scheduled")  # and of one that waited too long for resources


class Ray(EngineEnvironment):
    """A Ray cluster, by the address of its dashboard."""

    keys: ClassVar = {**EngineEnvironment.keys, "address": Form.STRING, "runtime_env": Form.TABLE}
    engine, poll_seconds, timeout, after_grace = "Ray", 2.0, 20.0, 30.0

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        super().__init__(settings, attempts, wake)
        self._address = str(settings.get("address") or os.environ.get("RAY_DASHBOARD_ADDRESS") or _ADDRESS).rstrip("/")

    def _start(self, task: Task) -> str:
        arguments, needs = self._place.send(task), task.resources
        native = PREFIX + task.attempt
        runtime_env = dict(self._settings.get("runtime_env") or {})
        wait = {"RAY_JOB_STOP_WAIT_TIME_S": str(int(self._grace + self.after_grace))}  # until Ray kills what it stops
        runtime_env["env_vars"] = {**runtime_env.get("env_vars", {}), **wait}
        slots = str(needs.slots) if needs.nodes == 1 else f"{needs.nodes} nodes with {needs.slots} each"
        about = {"name": native, _NEEDS: slots}
        body: dict[str, Any] = {"submission_id": native, "runtime_env": runtime_env, "metadata": about}
        if needs.nodes > 1:
            nodes = ["--nodes", str(needs.nodes), "--cpus", str(needs.cpus), "--gpus", str(needs.gpus)]
            command = [self._python, "-m", "leaven.jobs.ray_nodes", *nodes, *arguments]
        else:
            command = agent_command(self._python, arguments)
            body |= {"entrypoint_num_cpus": needs.cpus, "entrypoint_num_gpus": needs.gpus}
            body |= {"entrypoint_memory": needs.memory} if needs.memory else {}
        try:
            self._request("/api/jobs/", {**body, "entrypoint": shlex.join(command)})
        except Rejected as rejected:
            if "already exists" not in rejected.text:  # else a crash came after it was submitted
                raise Refused(f"Ray refuses it: {_last_line(rejected.text)}") from None
        return native

    def _ask_engine(self) -> dict[str, EngineStatus]:
        """The jobs of the cluster that are attempts."""
        try:
            rows = tables(self.engine, self._request("/api/jobs/"))
        except Rejected as rejected:
            raise Unreachable(_last_line(rejected.text)) from None
        ids = [(row.get("submission_id"), row) for row in rows]
        ours = [(id.removeprefix(PREFIX), row) for id, row in ids if isinstance(id, str) and id.startswith(PREFIX)]
        return {attempt: status_of(row) for attempt, row in ours}

    def _end(self, attempt: str) -> None:
        try:
            self._request(f"/api/jobs/{PREFIX}{attempt}/stop", {})
        except Rejected as rejected:
            raise Unreachable(_last_line(rejected.text)) from None

    def _request(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer of the dashboard; `Rejected` where it rejects the request, else `Unreachable`."""
        request = urllib.request.Request(self._address + path, headers={"Content-Type": "application/json"})
        if token := os.environ.get("RAY_AUTH_TOKEN"):
            request.add_header("Authorization", f"Bearer {token}")
        if body is not None:
            request.data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as problem:
            rejected = Rejected(problem.code, problem.read().decode(errors="replace"))
            if problem.code >= 500 and "already exists" not in rejected.text:
                raise Unreachable(f"{self._address}: {_last_line(rejected.text)}") from None
            raise rejected from None
        except (OSError, ValueError, http.client.HTTPException) as problem:
            raise Unreachable(f"{self._address}: {getattr(problem, 'reason', problem)}") from None
        try:
            return json.loads(text)
        except ValueError:
            raise not_understood(self.engine, text.decode(errors="replace")) from None

    def check(self) -> Iterator[Check]:
        try:
            found = self._request("/api/version")
        except Unreachable as problem:
            help = "set `address` of the environment: that of the cluster's dashboard"
            yield Check("the cluster", False, str(problem), help)
            return
        yield Check("the cluster", True, f"Ray {table(found).get('ray_version', '?')} at {self._address}")
        yield from self._place.check()
        is_set = "python" in self._settings
        yield Check("Python", True, self._python if is_set else "`python`, as the workers find it")


def _last_line(text: str) -> str:
    """An error without its traceback."""
    return next((line for line in reversed(text.strip().splitlines()) if line.strip()), "it does not say why")


def status_of(row: Mapping[str, Any]) -> EngineStatus:
    """The status of an attempt, by Ray's record of its job."""
    state, message = row.get("status"), str(row.get("message") or "")
    code = row.get("driver_exit_code")
    code = code if isinstance(code, int) else None
    needs = table(row.get("metadata")).get(_NEEDS) or "resources"
    if not isinstance(state, str):
        raise not_understood("Ray", row)
    match state:
        case "PENDING":
            reason = f"waits for {needs} to be free, or its runtime environment to be ready (Ray: PENDING)"
            return EngineStatus("waiting", reason=reason)
        case "RUNNING":  # also the driver of several nodes, while it waits for them
            return EngineStatus("running", until_begun=f"waits for {needs} to be free (Ray: RUNNING)")
        case "SUCCEEDED":
            return EngineStatus("over", Outcome.SUCCEEDED, code)
        case "STOPPED":
            return EngineStatus("over", Outcome.CANCELLED, code, "it was stopped in Ray", knows_why=True)
        case "FAILED":
            first = message.strip().partition("\n")[0]
            if any(word in message for word in _NO_ROOM):
                return EngineStatus("over", Outcome.STOPPED, code, f"Ray had no room for it: {first}")
            is_lost = code is None and any(word in message.lower() for word in _LOST)
            return EngineStatus("over", Outcome.LOST if is_lost else Outcome.FAILED, code, f"Ray says: {first}")
    return EngineStatus("running", reason=f"Ray says: {state}")
