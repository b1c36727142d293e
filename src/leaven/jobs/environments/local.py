"""This machine: one supervisor process per attempt, torchrun for several processes.

How an attempt ended is read from its folder (`supervisor.py` has the files). Whether it lives is asked of its processes
(`attempt_processes.py`), whatever became of the coordinator that started it, and of the folder. A supervisor that died
without writing how the attempt ended leaves orphans; these are ended before the attempt counts as lost, or begins.
"""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from leaven.formats import machine
from leaven.formats.installed_versions import leaven_version
from leaven.jobs import supervisor
from leaven.jobs.attempt_processes import end_processes, is_held, program_name
from leaven.jobs.control_groups import possible_limits
from leaven.jobs.environments.environment import Check, Position, Refused, Status, Task, Unreachable
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.places import Drive
from leaven.jobs.resources import Slots
from leaven.jobs.states import Outcome
from leaven.terminal.byte_sizes import show_bytes

_ASKING = 10  # seconds for nvidia-smi
_VISIBLE = "CUDA_VISIBLE_DEVICES"
# the Python that this environment builds on: it starts faster, and its path does not depend on a project
_BASE_PYTHON = getattr(sys, "_base_executable", "") or sys.executable
_PACKAGES = str(Path(supervisor.__file__).parents[2])  # the folder that Leaven is in
_SUPERVISE = "import sys; sys.path.append(sys.argv[1]); from leaven.jobs.supervisor import main; main(sys.argv[2])"


class Local:
    """This machine. `attempts` is the folder of attempts, `wake` the pipe by which a coordinator is woken."""

    keys: ClassVar[Mapping[str, Form]] = {
        **dict.fromkeys(("cores", "gpus"), Form.COUNT),
        **dict.fromkeys(("memory", "log_limit"), Form.SIZE),
        **dict.fromkeys(("python", "folder"), Form.STRING),
        "grace": Form.NUMBER,
    }

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        self._settings = settings
        self._attempts = attempts
        self._wake = wake
        self._python = str(settings.get("python") or sys.executable)
        self._drive = Drive(settings, attempts, self._python)
        self._children: dict[str, subprocess.Popen[bytes]] = {}  # supervisors that this process started

    def capacity(self) -> Slots:
        settings = self._settings
        cores = int(settings.get("cores") or machine.cores())
        memory = int(settings.get("memory") or machine.memory())
        return Slots(cores, memory, len(self._gpus))

    @cached_property
    def _gpus(self) -> list[str]:
        """What CUDA calls those that jobs may use."""
        return usable_gpus(self._settings.get("gpus"))

    def submit(self, task: Task) -> str:
        if any(device >= len(self._gpus) for device in task.devices):
            raise Refused(f"it was given GPUs that are not there any more: {', '.join(map(str, task.devices))}")
        gpus = {_VISIBLE: ",".join(self._gpus[device] for device in task.devices)} if self._gpus else {}
        described = replace(task, variables={**task.variables, **gpus})
        needs, wake = task.resources, str(self._wake)
        self._drive.describe(task.folder, described, cores=needs.cpus, memory=needs.memory, wake=wake)
        self._reap()
        own = {name: value for name, value in os.environ.items() if name not in supervisor.PRIVATE}
        self._children[task.attempt] = subprocess.Popen(
            [_BASE_PYTHON, "-I", "-S", "-c", _SUPERVISE, _PACKAGES, str(task.folder)],
            cwd="/",
            env={**own, **task.secrets},  # which the program inherits
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # neither Ctrl-C nor the end of the coordinator reaches it
        )
        return task.attempt

    def poll(self, attempts: Mapping[str, str]) -> dict[str, Status]:
        self._reap()
        return {attempt: self._status(attempt, native) for attempt, native in attempts.items()}

    def _status(self, attempt: str, native: str) -> Status:
        folder = self._attempts / attempt
        if (ended := self._drive.outcome(attempt)) is not None:
            return ended
        has_begun = (folder / supervisor.BEGUN).exists() or is_held(program_name(attempt))
        if self._drive.is_supervised(attempt):
            return Status("running" if has_begun else "starting")
        if (ended := self._drive.outcome(attempt)) is not None:  # it was written before the name was released
            return ended
        child = self._children.get(attempt)
        if child is not None and child.poll() is None:  # on its way to the lock
            return Status("starting")
        if not end_processes(attempt) or is_held(program_name(attempt)):
            return Status("running", reason="its supervisor is gone; its processes are being ended")
        if has_begun:
            return Status("ended", Outcome.LOST, reason="its supervisor was killed")
        if native and not folder.exists():
            return Status("ended", Outcome.LOST, reason=f"{folder} was removed, and nothing of it runs any more")
        return Status("absent")

    def _reap(self) -> None:
        """Let the system forget supervisors that have ended: shortly after they wrote how their attempt did."""
        self._children = {id: child for id, child in self._children.items() if child.poll() is None}

    def cancel(self, attempt: str, native: str, grace: float) -> None:
        self._drive.stop(attempt, grace)

    def logs(self, attempt: str, native: str, start: Position, most: int) -> tuple[bytes, Position]:
        return self._drive.log(attempt, start, most)

    def check(self) -> Iterator[Check]:
        has = self.capacity()
        yield Check("cores", has.cpus > 0, str(has.cpus))
        yield Check("memory", True, show_bytes(has.memory))
        yield Check("GPUs", True, str(has.gpus) if has.gpus else "none: programs use the CPU")
        limits = possible_limits()
        memory = (
            "memory by a control group" if "memory" in limits else "memory by a look every second (no control group)"
        )
        cores = "cores by a control group" if "cpu" in limits else "cores by pinning (no control group)"
        yield Check("limits of jobs", True, f"{memory}; {cores}")
        yield _python_check(self._python)
        free = shutil.disk_usage(_existing(self._attempts)).free
        is_writable = os.access(_existing(self._attempts), os.W_OK)
        found = f"{show_bytes(free)} free" if is_writable else "not writable"
        help = "" if is_writable else "set `folder` in [jobs] of leaven.toml, or LEAVEN_JOBS"
        yield Check(f"folder {self._attempts.parent}", is_writable and free > 0, found, help)


def _python_check(python: str) -> Check:
    """Whether a Python can run programs: the same version of Leaven."""
    here, what = leaven_version(), f"Python {python}"
    asked = "import leaven; print(leaven.__version__)"
    try:
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=60, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as problem:
        return Check(what, False, str(problem), "set `python` of the environment in leaven.toml")
    version = done.stdout.strip()
    if done.returncode or not version:
        return Check(what, False, "it has no Leaven", f"{python} -m pip install leaven=={here}")
    return Check(what, version == here, f"Leaven {version}", "" if version == here else f"it must be Leaven {here}")


def _existing(folder: Path) -> Path:
    """A folder, or the nearest above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())


def usable_gpus(most: int | None = None) -> list[str]:
    """CUDA's names of the NVIDIA GPUs that programs may use: those in CUDA_VISIBLE_DEVICES, else all."""
    visible = os.environ.get(_VISIBLE)
    if visible is not None:
        words = [word.strip() for word in visible.split(",")]
        return list(itertools.takewhile(lambda word: word not in ("", "-1"), words))[:most]  # as CUDA reads it
    return [str(number) for number in range(_count_gpus() if most is None else most)]


def _count_gpus() -> int:
    """How many GPUs nvidia-smi lists; none where there is no such command, or no driver."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_ASKING, check=False)
    except FileNotFoundError:
        return 0
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unreachable(f"nvidia-smi does not say which GPUs there are: {problem}") from None
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
