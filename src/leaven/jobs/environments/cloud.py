"""Rented machines: each attempt is a managed job of SkyPilot, which finds a machine, and another one if it is taken.

Attempts are carried through an object store, which `store` names: a machine that is lost loses only what was trained
since the last time that the run was sent. SkyPilot begins a preempted attempt again, under the same name, so it is the
same attempt.

SkyPilot is called by its command, which may be in an environment of its own: it needs older versions of some libraries.
"""

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leaven.formats.atomic_files import write_text
from leaven.formats.installed_versions import leaven_version
from leaven.jobs.agent import ADDRESS, FIRST, NODE
from leaven.jobs.environments import places
from leaven.jobs.environments.environment import Check, Refused, Task, Unreachable
from leaven.jobs.environments.following import PREFIX, Followed, Said
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.launching import agent_command
from leaven.jobs.states import Outcome

KEYS = {
    **places.KEYS,
    **dict.fromkeys(("sky", "infra", "gpu", "image", "setup"), Form.STRING),
    "spot": Form.SWITCH,
    "secrets": Form.STRINGS,
    "mounts": Form.TABLE,
    "disk": Form.COUNT,
    **dict.fromkeys(("poll", "timeout"), Form.NUMBER),
}
TASK = "sky.yaml"
_POLL = 20.0
_TIMEOUT = 120.0  # SkyPilot's commands may start a server first
_AFTER_GRACE = 60.0  # seconds in which a machine may send what it has saved
_REFUSES = ("invalid", "validation", "no such option", "not a valid", "valueerror", "does not contain any valid")
_WAITING = ("PENDING", "SUBMITTED", "STARTING")
_RUNNING = ("RUNNING", "WINDING_DOWN", "RECOVERING", "CANCELLING")
_ENDED = {
    "SUCCEEDED": Outcome.SUCCEEDED,
    "CANCELLED": Outcome.STOPPED,
    "FAILED": Outcome.FAILED,
    "FAILED_SETUP": Outcome.FAILED,
    "FAILED_PRECHECKS": Outcome.REFUSED,
    "FAILED_NO_RESOURCE": Outcome.LOST,
    "FAILED_CONTROLLER": Outcome.LOST,
}


class Cloud(Followed):
    """Machines of SkyPilot's, by its command."""

    engine, hold, after_grace = "SkyPilot", _POLL, _AFTER_GRACE

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        super().__init__(settings, attempts, wake)
        self._sky = str(settings.get("sky") or "sky")
        self._timeout = float(settings.get("timeout", _TIMEOUT))

    def submit(self, task: Task) -> str:
        if not self._settings.get("store"):
            raise Refused('`store` of the environment is not set: an object store, such as "s3://bucket/leaven"')
        if task.resources.gpus and not self._settings.get("gpu"):
            raise Refused('`gpu` of the environment is not set: the kind of GPU to rent, such as "A100"')
        self._write(task, agent_command(self._python, self._place.send(task)))
        secrets = [word for name in self._settings.get("secrets", ()) for word in ("--secret", str(name))]
        self._run(["jobs", "launch", "--yes", "--detach-run", *secrets, str(task.folder / TASK)], refuses=True)
        self._said.forget()
        return PREFIX + task.attempt

    def _write(self, task: Task, command: Sequence[str]) -> None:
        try:
            import yaml
        except ModuleNotFoundError:
            raise Unreachable("pyyaml is not installed: pip install 'leaven[cloud]'") from None
        text = yaml.safe_dump(task_of(task, command, self._settings), sort_keys=False, width=120)
        write_text(task.folder / TASK, text)

    def _ask_engine(self) -> dict[str, Said]:
        """What SkyPilot says of attempts."""
        text = self._run(["jobs", "queue", "--all", "--output", "json"])
        try:
            rows = json.loads(text[text.index("[") :])
        except ValueError:
            raise Unreachable("`sky jobs queue` did not print JSON") from None
        names = [(str(row["job_name"] or ""), row) for row in sorted(rows, key=lambda row: row["job_id"])]
        return {name.removeprefix(PREFIX): _what_is_said(row) for name, row in names if name.startswith(PREFIX)}

    def _end(self, attempt: str) -> None:
        self._run(["jobs", "cancel", "--yes", "--name", PREFIX + attempt])

    def _run(self, words: Sequence[str], *, refuses: bool = False) -> str:
        """What a command of SkyPilot's prints."""
        try:
            done = subprocess.run(
                [self._sky, *words],
                capture_output=True,
                text=True,
                timeout=self._timeout,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise Unreachable(f"the command `{self._sky}` is not there") from None
        except subprocess.TimeoutExpired:
            raise Unreachable(f"`sky {words[0]}` did not answer in {self._timeout:.0f} s") from None
        if done.returncode == 0:
            return done.stdout
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        problem = said[-1] if said else f"`sky {words[0]}` failed"
        if refuses and any(word in " ".join(said).lower() for word in _REFUSES):
            raise Refused(f"SkyPilot refuses it: {problem}")
        raise Unreachable(problem)

    def check(self) -> Iterator[Check]:
        place = shutil.which(self._sky)
        help = "" if place else "install SkyPilot in an environment of its own, and set `sky` to its command"
        yield Check("the command sky", place is not None, place or "not found", help)
        if not self._settings.get("store"):
            yield Check("store", False, "not set", 'set `store` of the environment, such as "s3://bucket/leaven"')
        else:
            yield from self._place.check()
        if place is None:
            return
        said = self._run(["check"])
        clouds = [line.strip() for line in said.splitlines() if "enabled" in line.lower()]
        help = "" if clouds else "`sky check` says what is missing"
        yield Check("a cloud", bool(clouds), clouds[0] if clouds else "none is enabled", help)


def _what_is_said(row: Mapping[str, Any]) -> Said:
    """What a row of SkyPilot's queue means."""
    state = str(row["status"]).rpartition(".")[2]
    reason = str(row.get("failure_reason") or "")
    if state in _WAITING:
        return Said("waiting", reason=str(row.get("details") or ""))
    if state in _RUNNING:
        return Said("running", reason="its machine was lost: another is being found" if state == "RECOVERING" else "")
    return Said("over", _ENDED.get(state, Outcome.LOST), reason=f"SkyPilot says: {state} {reason}".strip())


def task_of(task: Task, command: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The task of SkyPilot's for an attempt, which runs a command on each node."""
    needs = task.resources
    resources: dict[str, Any] = {"cpus": f"{needs.cpus}+", "job_recovery": {"max_restarts_on_errors": 0}}
    if settings.get("infra"):
        resources["infra"] = str(settings["infra"])
    if needs.memory:
        resources["memory"] = f"{-(-needs.memory // 10**9)}+"
    if needs.gpus:
        resources["accelerators"] = f"{settings['gpu']}:{needs.gpus}"
    if settings.get("spot", True):
        resources["use_spot"] = True
    if settings.get("image"):
        resources["image_id"] = str(settings["image"])
    if settings.get("disk"):
        resources["disk_size"] = int(settings["disk"])
    nodes = f'export {NODE}="$SKYPILOT_NODE_RANK" {FIRST}="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"'
    this = f'export {ADDRESS}="$(echo "$SKYPILOT_NODE_IPS" | sed -n "$((SKYPILOT_NODE_RANK + 1))p")"'
    found: dict[str, Any] = {
        "name": PREFIX + task.attempt,
        "num_nodes": needs.nodes,
        "resources": resources,
        "envs": dict(task.variables),
        "setup": str(settings.get("setup") or f"pip install leaven=={leaven_version()}"),
        "run": f"{nodes}\n{this}\nexec {shlex.join(command)}\n",
    }
    if settings.get("mounts"):
        found["file_mounts"] = {str(here): str(there) for here, there in settings["mounts"].items()}
    return found
