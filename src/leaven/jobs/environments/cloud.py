"""Rented machines: each attempt is a managed job of SkyPilot, which finds a machine, and another one if it is taken.

Attempts are carried through an object store, which `store` names: a machine that is lost loses only what was trained
since the last time that the run was sent. SkyPilot begins a preempted attempt again, under the same name, so it is the
same attempt.

SkyPilot is called by its command, which may be in an environment of its own: it needs older versions of some libraries.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from leaven.files.atomic_files import write_text
from leaven.formats.installed_versions import leaven_version
from leaven.jobs.agent import ADDRESS, FIRST, NODE
from leaven.jobs.environments.answers import not_understood, run_command, tables
from leaven.jobs.environments.environment import Check, Refused, Task, Unreachable
from leaven.jobs.environments.following import PREFIX, EngineEnvironment, EngineStatus
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.launching import agent_command
from leaven.jobs.object_store import access_variables, package_for
from leaven.jobs.states import Outcome

TASK = "sky.yaml"
_REFUSES = ("invalid", "validation", "no such option", "not a valid", "valueerror", "does not contain any valid")
_WAITING = {
    "PENDING": "waits for its turn",
    "SUBMITTED": "waits for its turn",
    "STARTING": "a machine is being found and set up for it",
}
_ENDED = {
    "SUCCEEDED": Outcome.SUCCEEDED,
    "CANCELLED": Outcome.CANCELLED,
    "FAILED": Outcome.FAILED,
    "FAILED_SETUP": Outcome.FAILED,
    "FAILED_PRECHECKS": Outcome.REFUSED,
    "FAILED_NO_RESOURCE": Outcome.LOST,
    "FAILED_CONTROLLER": Outcome.LOST,
}


class Cloud(EngineEnvironment):
    """Machines of SkyPilot's, by its command."""

    keys: ClassVar = {
        **EngineEnvironment.keys,
        **dict.fromkeys(("sky", "infra", "gpu", "image", "setup"), Form.STRING),
        "spot": Form.SWITCH,
        "secrets": Form.STRINGS,
        "mounts": Form.TABLE,
        "disk": Form.COUNT,
    }
    # its commands may start a server first; after the grace, a machine may send what it has saved
    engine, poll_seconds, timeout, after_grace = "SkyPilot", 20.0, 120.0, 60.0

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        super().__init__(settings, attempts, wake)
        self._sky = str(settings.get("sky") or "sky")

    def _start(self, task: Task) -> str:
        if not self._settings.get("store"):
            raise Refused('`store` of the environment is not set: an object store, such as "s3://bucket/leaven"')
        if task.resources.gpus and not self._settings.get("gpu"):
            raise Refused('`gpu` of the environment is not set: the kind of GPU to rent, such as "A100"')
        try:
            import yaml
        except ModuleNotFoundError:
            raise Unreachable("pyyaml is not installed: pip install 'leaven[cloud]'") from None
        content = task_of(task, agent_command(self._python, self._place.send(task)), self._settings)
        write_text(task.folder / TASK, yaml.safe_dump(content, sort_keys=False, width=120))
        secrets = [word for name in self._secrets() for word in ("--secret", name)]
        self._run(["jobs", "launch", "--yes", "--detach-run", *secrets, str(task.folder / TASK)], refuses=True)
        return PREFIX + task.attempt

    def _secrets(self) -> list[str]:
        """The variables that are sent to the machine: those that are named, and what gives access to its store."""
        named = [str(name) for name in self._settings.get("secrets", ())]
        if missing := [name for name in named if name not in os.environ]:
            raise Refused(f"the coordinator does not have the variable {missing[0]}, which `secrets` names")
        return list(dict.fromkeys([*named, *access_variables(str(self._settings["store"]))]))

    def _ask_engine(self) -> dict[str, EngineStatus]:
        """The managed jobs of this user."""
        # without `--verbose` it does not say why it waits or failed
        rows = _printed_tables(self._run(["jobs", "queue", "--all", "--verbose", "--output", "json"]))
        rows.sort(key=lambda row: number if isinstance(number := row.get("job_id"), int) else 0)
        names = [(row.get("job_name"), row) for row in rows]
        ours = [(name, row) for name, row in names if isinstance(name, str) and name.startswith(PREFIX)]
        return {name.removeprefix(PREFIX): status_of(row) for name, row in ours}

    def _end(self, attempt: str) -> None:
        self._run(["jobs", "cancel", "--yes", "--name", PREFIX + attempt])

    def _run(self, words: Sequence[str], *, refuses: bool = False) -> str:
        """The output of a command of SkyPilot's."""
        done = run_command(f"sky {words[0]}", [self._sky, *words], self._timeout)
        if done.returncode == 0:
            return done.stdout
        errors = (done.stderr.strip() or done.stdout.strip()).splitlines()
        problem = errors[-1] if errors else f"`sky {words[0]}` failed"
        if refuses and any(word in " ".join(errors).lower() for word in _REFUSES):
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
        clouds = [line.strip() for line in self._run(["check"]).splitlines() if "enabled" in line.lower()]
        help = "" if clouds else "`sky check` says what is missing"
        yield Check("a cloud", bool(clouds), clouds[0] if clouds else "none is enabled", help)


def _printed_tables(text: str) -> list[dict[str, Any]]:
    """The list of tables that a command prints, among lines about what it does."""
    for start in re.finditer(r"^\s*\[", text, re.MULTILINE):
        try:
            return tables("`sky jobs queue`", json.JSONDecoder().raw_decode(text, start.end() - 1)[0])
        except (ValueError, Unreachable):
            continue
    raise not_understood("`sky jobs queue`", text)


def status_of(row: Mapping[str, Any]) -> EngineStatus:
    """The status of an attempt, by a row of SkyPilot's queue."""
    if not isinstance(row.get("status"), str):
        raise not_understood("SkyPilot", row)
    state = str(row["status"]).rpartition(".")[2]
    if state in _WAITING:
        words = ": ".join(str(word) for word in (state, row.get("details")) if word)
        return EngineStatus("waiting", reason=f"{_WAITING[state]} (SkyPilot: {words})")
    if state not in _ENDED:
        return EngineStatus("running", reason="its machine was lost: another is being found" * (state == "RECOVERING"))
    if state == "CANCELLED":
        return EngineStatus("over", Outcome.CANCELLED, reason="it was cancelled in SkyPilot", knows_why=True)
    reason = f"SkyPilot says: {state} {row.get('failure_reason') or ''}".strip()
    return EngineStatus("over", _ENDED[state], reason=reason)


def task_of(task: Task, command: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The task of SkyPilot's for an attempt, which runs a command on each node."""
    needs = task.resources
    resources = {
        "cpus": f"{needs.cpus}+",
        "job_recovery": {"max_restarts_on_errors": 0},
        "infra": settings.get("infra"),
        "memory": f"{-(-needs.memory // 10**9)}+" if needs.memory else None,
        "accelerators": f"{settings['gpu']}:{needs.gpus}" if needs.gpus else None,
        "use_spot": settings.get("spot", True),
        "image_id": settings.get("image"),
        "disk_size": settings.get("disk"),
    }
    nodes = f'export {NODE}="$SKYPILOT_NODE_RANK" {FIRST}="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"'
    this = f'export {ADDRESS}="$(echo "$SKYPILOT_NODE_IPS" | sed -n "$((SKYPILOT_NODE_RANK + 1))p")"'
    content = {
        "name": PREFIX + task.attempt,
        "num_nodes": needs.nodes,
        "resources": {key: value for key, value in resources.items() if value},
        "run": f"{nodes}\n{this}\nexec {shlex.join(command)}\n",
        "setup": _setup(settings),
        "file_mounts": {str(here): str(there) for here, there in (settings.get("mounts") or {}).items()},
    }
    return {key: value for key, value in content.items() if value}


def _setup(settings: Mapping[str, Any]) -> str:
    """The commands that install Leaven, and what its store needs, on a machine whose image does not have them."""
    if settings.get("setup") or settings.get("image"):
        return str(settings.get("setup") or "")
    needed = (f"leaven=={leaven_version()}", package_for(str(settings.get("store") or "")))
    return shlex.join(["pip", "install", *filter(None, needed)])
