"""A Slurm cluster: each attempt is a batch job, whose name has the attempt's id in it.

Files of an attempt are in its folder, which all nodes must see: the batch script, the log, what the program says of its
end and its exit code. Slurm's own word counts where these are missing. A job that Slurm requeues begins again under
the same id, so it is the same attempt; one that saves and ends within the grace of a preemption is followed by another.
Both go on from the run's last checkpoint.

The attempts of a sweep are one job array. Its tasks have one name, so a file of the first attempt says which is which.

Slurm's commands block while its controller is down: each has a time-out, after which the cluster counts as not
answering.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leaven.formats.atomic_files import write_text
from leaven.formats.run_folder import read_json
from leaven.jobs import supervisor
from leaven.jobs.environments.answers import Held
from leaven.jobs.environments.environment import GRACE, Check, Refused, Status, Task, Unreachable
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.launching import FIRST_NODE, THIS_NODE
from leaven.jobs.environments.logs import read_log
from leaven.jobs.environments.supervising import ask_to_stop, described, is_asked_to_stop
from leaven.jobs.states import Outcome

KEYS = {
    **dict.fromkeys(("partition", "account", "qos", "constraint", "python", "folder"), Form.STRING),
    "options": Form.STRINGS,
    **dict.fromkeys(("grace", "poll", "timeout"), Form.NUMBER),
}
SCRIPT = "job.sh"
ARRAY = "array"  # the file with the attempts of an array
ARRAY_SCRIPT = "array.sh"
EXIT = "exit"  # the file with the exit code
NATIVE = "native"  # that with Slurm's id
_PREFIX = "leaven-"
_ARRAY = "array-"  # begins the names of arrays, after the prefix and before the first attempt
_LARGEST = 1000  # tasks of an array: MaxArraySize of a cluster that does not say
_POLL = 5.0  # seconds for which an answer of the controller holds
_TIMEOUT = 30.0
_DOWN = re.compile(r"contact slurm|controller|timed out|connection refused|communication|backup", re.IGNORECASE)
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
_ENDED = {
    "COMPLETED": Outcome.SUCCEEDED,
    "CANCELLED": Outcome.STOPPED,
    "PREEMPTED": Outcome.STOPPED,
    "TIMEOUT": Outcome.TIMED_OUT,
    "DEADLINE": Outcome.TIMED_OUT,
    "NODE_FAIL": Outcome.LOST,
    "BOOT_FAIL": Outcome.LOST,
}


class Slurm:
    """A Slurm cluster, by its commands. `attempts` is a folder that all nodes see."""

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        self._settings = settings
        self._attempts = attempts
        self._python = str(settings.get("python") or sys.executable)
        self._timeout = float(settings.get("timeout", _TIMEOUT))
        self._grace = float(settings.get("grace", GRACE))
        self._jobs = Held(self._ask_for_jobs, float(settings.get("poll", _POLL)))
        self._kill_at: dict[str, float] = {}
        self._arrays: dict[str, list[str]] = {}

    def capacity(self) -> None:
        """Slurm has a queue of its own."""

    def submit(self, task: Task) -> str:
        task.folder.mkdir(parents=True, exist_ok=True)
        write_text(task.folder / SCRIPT, self.script(task))
        done = self._run(["sbatch", "--parsable", str(task.folder / SCRIPT)], refuses=True)
        native = done.strip().split(";")[0]
        write_text(task.folder / NATIVE, native)
        self._jobs.forget()
        return native

    def submit_array(self, tasks: Sequence[Task]) -> list[str]:
        """Submit attempts as arrays; the file that says which task is which is there before."""
        found: list[str] = []
        for first in range(0, len(tasks), _LARGEST):
            part = tasks[first : first + _LARGEST]
            for task in part:
                task.folder.mkdir(parents=True, exist_ok=True)
                write_text(task.folder / SCRIPT, self.script(task))
            name = _ARRAY + part[0].attempt
            write_text(self._array_file(name), "".join(f"{task.attempt}\n" for task in part))
            write_text(part[0].folder / ARRAY_SCRIPT, self._array_script(part, name))
            done = self._run(["sbatch", "--parsable", str(part[0].folder / ARRAY_SCRIPT)], refuses=True)
            native = done.strip().split(";")[0]
            found += [f"{native}_{number}" for number in range(1, len(part) + 1)]
        self._jobs.forget()
        return found

    def _array_file(self, name: str) -> Path:
        """The file with the attempts of an array, in the order of its tasks: it is kept with the first."""
        return self._attempts / name.removeprefix(_ARRAY) / ARRAY

    def _array_script(self, tasks: Sequence[Task], name: str) -> str:
        """The batch script of an array: each task runs the script of its attempt."""
        own = (f"--job-name={_PREFIX}{tasks[0].attempt}", f"--output={tasks[0].folder / supervisor.LOG}")
        options = [option for option in self._options(tasks[0]) if option not in own]
        options = [f"--job-name={_PREFIX}{name}", "--output=/dev/null", f"--array=1-{len(tasks)}", *options]
        lines = [
            "#!/bin/bash",
            *(f"#SBATCH {option}" for option in options),
            f"folder={_quoted(self._attempts)}/$(sed -n ${{SLURM_ARRAY_TASK_ID}}p {_quoted(self._array_file(name))})",
            f'exec bash "$folder/{SCRIPT}" >> "$folder/{supervisor.LOG}" 2>&1',
        ]
        return "\n".join(lines) + "\n"

    def script(self, task: Task) -> str:
        """The batch script of an attempt."""
        folder = str(self._settings.get("folder") or task.project)
        found = described(task, python=self._python, folder=folder, grace=self._grace)
        variables = dict(found["environment"])
        variables |= {supervisor.ATTEMPT: task.attempt, supervisor.TELL: str(task.folder / supervisor.TOLD)}
        lines = [
            "#!/bin/bash",
            *(f"#SBATCH {option}" for option in self._options(task)),
            # Slurm begins a job that it has preempted again: what the one before said does not count
            f"rm -f {_quoted(task.folder / supervisor.TOLD)} {_quoted(task.folder / EXIT)}",
            f"echo ${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}${{SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}}"
            f" > {_quoted(task.folder / NATIVE)}",
            *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
            f"cd {shlex.quote(found['folder'])} || cd {shlex.quote(found['otherwise'])}",
            "trap : TERM  # the program gets it too, and saves; its exit code is still wanted",
            *_launch(found["command"], task.resources.nodes),
            "code=$?",
            f"echo $code > {_quoted(task.folder / EXIT)}.new",
            f"mv {_quoted(task.folder / EXIT)}.new {_quoted(task.folder / EXIT)}",
            "exit $code",
        ]
        return "\n".join(lines) + "\n"

    def _options(self, task: Task) -> list[str]:
        needs, given = task.resources, self._settings
        found = [
            f"--job-name={_PREFIX}{task.attempt}",
            f"--output={task.folder / supervisor.LOG}",
            "--open-mode=append",
            "--requeue",
            f"--nodes={needs.nodes}",
            "--ntasks-per-node=1",
            f"--cpus-per-task={needs.cpus}",
        ]
        found += [f"--mem={-(-needs.memory // 2**20)}M"] if needs.memory else []
        found += [f"--gres=gpu:{needs.gpus}"] if needs.gpus else []
        found += [f"--time={max(1, round(needs.minutes))}"] if needs.minutes else []
        found += [f"--{key}={given[key]}" for key in ("partition", "account", "qos", "constraint") if given.get(key)]
        return [*found, *given.get("options", ())]

    def poll(self, attempts: Mapping[str, str]) -> dict[str, Status]:
        jobs = self._jobs()
        return {attempt: self._status(attempt, native, jobs) for attempt, native in attempts.items()}

    def _status(self, attempt: str, native: str, jobs: Mapping[str, tuple[str, str, str]]) -> Status:
        """What became of an attempt: while Slurm has it by Slurm's state, then by its own files."""
        folder = self._attempts / attempt
        _, state, reason = jobs.get(attempt, ("", "", ""))
        if state in _WAITING:
            return Status("starting", reason=reason)
        if state in _RUNNING:
            return Status("running")
        code = _exit_code(folder)
        if not state and code is None:
            known = native or _native(folder)
            return (
                Status("ended", Outcome.LOST, reason=f"Slurm has forgotten job {known}") if known else Status("absent")
            )
        self._kill_at.pop(attempt, None)
        if state in ("TIMEOUT", "DEADLINE"):
            return Status("ended", Outcome.TIMED_OUT, code, "its time limit was reached")
        if code is None or state in ("NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"):
            told = f"Slurm says: {state}{f' ({reason})' if reason not in ('', 'None') else ''}"
            return Status("ended", _ENDED.get(state, Outcome.FAILED), code, told)
        stop: dict[str, Any] | None = {} if state in ("CANCELLED", "PREEMPTED") or is_asked_to_stop(folder) else None
        outcome, why = supervisor.judge(read_json(folder / supervisor.TOLD) or None, code, stop)
        return Status("ended", Outcome(outcome), code, why)

    def cancel(self, attempt: str, native: str, grace: float) -> None:
        """Ask the program to save, if it runs; after the grace, and for a job that waits, let Slurm cancel it."""
        folder = self._attempts / attempt
        id, state, _ = self._jobs().get(attempt, ("", "", ""))
        if not id or state in _ENDED:
            return
        if state in _WAITING:
            self._run(["scancel", id])
        elif ask_to_stop(folder, grace):
            self._run(["scancel", "--signal=TERM", id])
        elif time.monotonic() >= self._kill_at.setdefault(attempt, time.monotonic() + grace):
            self._run(["scancel", id])

    def logs(self, attempt: str, native: str, offset: int) -> bytes:
        return read_log(self._attempts / attempt, offset)

    def find(self, attempt: str) -> str | None:
        self._jobs.forget()
        found = self._jobs().get(attempt)
        return found[0] if found else _native(self._attempts / attempt)

    def _ask_for_jobs(self) -> dict[str, tuple[str, str, str]]:
        """The jobs that Slurm knows, by attempt: id, state and reason."""
        words = ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", "--format=%i|%T|%j|%r"]
        rows = [line.split("|", 3) for line in self._run(words).splitlines() if line.count("|") >= 3]
        return {
            attempt: (id, state, reason)
            for id, state, name, reason in sorted(rows, key=lambda row: int(re.sub(r"\D.*", "", row[0]) or 0))
            if name.startswith(_PREFIX) and (attempt := self._attempt(name.removeprefix(_PREFIX), id))
        }

    def _attempt(self, name: str, id: str) -> str | None:
        """The attempt of a job, or of a task of an array: `17_3` is the third."""
        if not name.startswith(_ARRAY):
            return name
        if name not in self._arrays:
            try:
                self._arrays[name] = self._array_file(name).read_text().split()
            except OSError:
                return None
        number = id.partition("_")[2]
        return self._arrays[name][int(number) - 1] if number.isdecimal() else None

    def _run(self, words: Sequence[str], *, refuses: bool = False) -> str:
        """What a command of Slurm's prints."""
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=self._timeout, check=False)
        except FileNotFoundError:
            raise Unreachable(f"the command `{words[0]}` is not there") from None
        except subprocess.TimeoutExpired:
            raise Unreachable(f"`{words[0]}` did not answer in {self._timeout:.0f} s") from None
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.strip().splitlines()
        problem = said[-1].removeprefix(f"{words[0]}: ").removeprefix("error: ") if said else f"`{words[0]}` failed"
        if refuses and not _DOWN.search(done.stderr):
            raise Refused(f"Slurm refuses it: {problem}")
        raise Unreachable(problem)

    def check(self) -> Iterator[Check]:
        for command in ("sbatch", "squeue", "scancel", "sinfo"):
            place = shutil.which(command)
            yield Check(command, place is not None, place or "not found", "" if place else "install Slurm's commands")
            if place is None:
                return
        said = self._run(["sinfo", "--noheader", "--format=%R|%a|%D|%c|%m|%G"])
        rows = [line.split("|") for line in said.splitlines() if line.count("|") == 5]
        for name, state, nodes, cores, memory, gres in rows:
            gpus = "" if gres.strip() == "(null)" else f", {gres.strip()}"
            found = f"{state}, {nodes} nodes with {cores} cores, {memory} MB{gpus}"
            yield Check(f"partition {name}", state.strip() == "up", found)
        wanted = self._settings.get("partition")
        if wanted and wanted not in [row[0].strip() for row in rows]:
            yield Check(f"partition {wanted}", False, "not found", f"there are: {', '.join(row[0] for row in rows)}")
        is_there = os.access(self._python, os.X_OK)
        help = "" if is_there else "set `python` of the environment: it must be there on every node"
        yield Check(f"Python {self._python}", is_there, "found here" if is_there else "not found here", help)
        yield Check(
            f"folder {self._attempts.parent}", True, "must be on a drive that all nodes see; the tiny job tells"
        )


def _launch(command: Sequence[str], nodes: int) -> list[str]:
    """The lines of a script that run a command: on each node as one task of `srun`."""
    words = shlex.join(command)
    if nodes == 1:
        return [f"srun --kill-on-bad-exit=1 {words}"]
    words = words.replace(FIRST_NODE, "$first").replace(THIS_NODE, "$this")
    on_each = f"this=$(address $SLURMD_NODENAME) && exec {words}"
    return [
        # by which other nodes can reach it
        "address() { scontrol show node $1 | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p'; }",
        "export -f address",
        'export first=$(address $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1))',
        f"srun --kill-on-bad-exit=1 bash -c {shlex.quote(on_each)}",
    ]


def _exit_code(folder: Path) -> int | None:
    try:
        return int((folder / EXIT).read_text())
    except (OSError, ValueError):
        return None


def _native(folder: Path) -> str | None:
    try:
        return (folder / NATIVE).read_text().strip() or None
    except OSError:
        return None


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
