"""A Slurm cluster: each attempt is a batch job that runs its agent on each node, by one task of `srun`.

The job's name has the attempt's id in it. A job that Slurm requeues begins again under the same id, so it is the same
attempt; one that saves and ends within the grace of a preemption is followed by another. Both go on from the run's
last checkpoint. A job that somebody cancels in Slurm stays cancelled.

The attempts of a sweep are one job array. Its tasks have one name, so a file of the first attempt says which is which.

Slurm's commands block while its controller is down: each has a time-out, after which the cluster counts as not
answering. Options are given on their command line, where a folder may have any name.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from leaven.files.atomic_files import write_text
from leaven.files.regular import open_regular
from leaven.jobs import supervisor
from leaven.jobs.agent import ADDRESS, FIRST, NODE
from leaven.jobs.environments.answers import not_understood, run_command
from leaven.jobs.environments.environment import Check, Refused, Task, Unreachable
from leaven.jobs.environments.following import PREFIX, EngineEnvironment, EngineStatus, NotYet
from leaven.jobs.environments.keys import Form
from leaven.jobs.environments.launching import agent_command
from leaven.jobs.environments.slurm_reasons import why_it_waits
from leaven.jobs.states import Outcome

SCRIPT = "job.sh"
PRINTED = "slurm.log"  # the file with what Slurm and the agent print; the program's log is the agent's
_ADDRESSES = (  # by which nodes can reach each other
    "address() { scontrol show node \"$1\" | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p'; }",
    "export -f address",
    f'export {FIRST}="$(address "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)")"',
)
_LAST_WORDS = 10_000  # bytes of it that are read
ARRAY = "array"  # the file with the attempts of an array
_ARRAY = "array-"  # begins the names of arrays, after the prefix and before the first attempt
_LARGEST = 1000  # tasks of an array: MaxArraySize of a cluster that does not say
_DOWN = re.compile(r"contact slurm|controller|timed out|connection refused|communication|backup", re.IGNORECASE)
_SUBMIT_LIMIT = re.compile(r"\b(?:QOS|Assoc)\w*Submit\w*Limit\b")  # of jobs that wait or run at a time
_ROW = re.compile(r"(?P<id>(?P<job>\d+)(?:_(?P<task>\d+))?\S*)\|(?P<state>[A-Z_]+)\|(?P<reason>[^|]*)\|(?P<name>.*)")
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")  # and new ones
_KNOWS_WHY = {  # the attempt only knows that it got a signal
    "CANCELLED": (Outcome.CANCELLED, "it was cancelled in Slurm"),
    "TIMEOUT": (Outcome.TIMED_OUT, "its time limit was reached"),
    "DEADLINE": (Outcome.TIMED_OUT, "its deadline was reached"),
    "OUT_OF_MEMORY": (Outcome.FAILED, "it used more memory than it asked for (Slurm: OUT_OF_MEMORY)"),
}
_ENDED = {
    "COMPLETED": Outcome.SUCCEEDED,
    "PREEMPTED": Outcome.STOPPED,
    "FAILED": Outcome.FAILED,
    "LAUNCH_FAILED": Outcome.FAILED,
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL", "RECONFIG_FAIL", "REVOKED"), Outcome.LOST),
}


class Slurm(EngineEnvironment):
    """A Slurm cluster, by its commands."""

    keys: ClassVar = {
        **EngineEnvironment.keys,
        **dict.fromkeys(("partition", "account", "qos", "constraint"), Form.STRING),
        "options": Form.STRINGS,
    }
    engine, poll_seconds, timeout, after_grace = "Slurm", 5.0, 30.0, 5.0

    def __init__(self, settings: Mapping[str, Any], attempts: Path, wake: Path) -> None:
        super().__init__({**settings, "python": settings.get("python") or sys.executable}, attempts, wake)
        self._arrays: dict[str, list[str]] = {}  # the attempts of arrays, by name

    def _start(self, task: Task) -> str:
        return self._submitted([task], task.attempt)

    def submit_array(self, tasks: Sequence[Task]) -> list[str]:
        """Submit attempts as arrays; the file that says which task is which is there before."""
        self._statuses.forget()
        natives: list[str] = []
        for start in range(0, len(tasks), _LARGEST):
            part = tasks[start : start + _LARGEST]
            first = part[0]
            first.folder.mkdir(parents=True, exist_ok=True)
            write_text(first.folder / ARRAY, "".join(f"{task.attempt}\n" for task in part))
            native = self._submitted(part, _ARRAY + first.attempt, f"--array=1-{len(part)}")
            natives += [f"{native}_{number}" for number in range(1, len(part) + 1)]
        return natives

    def _submitted(self, tasks: Sequence[Task], name: str, *options: str) -> str:
        """Submit one batch job, with a task for each attempt; its id."""
        arguments = [self._place.send(task) for task in tasks]
        script = tasks[0].folder / SCRIPT
        write_text(script, batch_script(self._python, arguments, tasks[0].resources.nodes, self._grace))
        words = ["sbatch", "--parsable", f"--job-name={PREFIX}{name}", *options, *self._options(tasks[0]), str(script)]
        answer = self._run(words, refuses=True)
        id = re.fullmatch(r"(\d+)(;.*)?", answer.strip())
        if id is None:
            raise not_understood("sbatch", answer)
        return id[1]

    def _options(self, task: Task) -> list[str]:
        needs, given = task.resources, self._settings
        options = [
            "--output=/dev/null",  # the script says where: Slurm replaces `%` in a name, and a backslash
            "--chdir=/",
            "--requeue",
            f"--nodes={needs.nodes}",
            "--ntasks-per-node=1",
            f"--cpus-per-task={needs.cpus}",
        ]
        options += [f"--mem={-(-needs.memory // 2**20)}M"] if needs.memory else []
        options += [f"--gres=gpu:{needs.gpus}"] if needs.gpus else []
        options += [f"--time={max(1, round(needs.minutes))}"] if needs.minutes else []
        options += [f"--{key}={given[key]}" for key in ("partition", "account", "qos", "constraint") if given.get(key)]
        return [*options, *given.get("options", ())]

    def _end(self, attempt: str) -> None:
        if (status := self._statuses().get(attempt)) is not None:
            self._run(["scancel", status.id])

    def _ask_engine(self) -> dict[str, EngineStatus]:
        """The jobs of this user that Slurm knows. A name may be anything, and comes last."""
        words = ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", "--format=%i|%T|%r|%j"]
        answer = self._run(words)
        lines = answer.splitlines()
        rows = [_ROW.fullmatch(line) for line in lines]
        is_cut = bool(answer) and not answer.endswith("\n")
        odd = [line for line, row in zip(lines, rows, strict=True) if row is None and line[:1].isdecimal()]
        if lines and (is_cut or odd or rows[0] is None):  # other lines belong to a name that has several
            raise not_understood("squeue", (odd or [lines[-1] if is_cut else lines[0]])[0])
        ours = [row for row in rows if row is not None and row["name"].startswith(PREFIX)]
        statuses: dict[str, EngineStatus] = {}
        for row in sorted(ours, key=lambda row: int(row["job"])):
            if attempt := self._attempt(row["name"].removeprefix(PREFIX), row["task"]):
                last_words = self._last_words(attempt) if row["state"] == "FAILED" else ""
                statuses[attempt] = status_of(row["id"], row["state"], row["reason"], last_words)
        return statuses

    def _attempt(self, name: str, number: str | None) -> str | None:
        """The attempt of a job, or of a task of an array."""
        if not name.startswith(_ARRAY):
            return name
        if name not in self._arrays:
            try:
                self._arrays[name] = (self._attempts / name.removeprefix(_ARRAY) / ARRAY).read_text().split()
            except (OSError, ValueError):
                return None
        attempts = self._arrays[name]
        return attempts[int(number) - 1] if number and 0 < int(number) <= len(attempts) else None

    def _last_words(self, attempt: str) -> str:
        """The last line that Slurm or the agent has printed: why an attempt has not begun."""
        try:
            with open_regular(self._attempts / attempt / PRINTED) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS))
                lines = file.read(_LAST_WORDS).decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _run(self, words: Sequence[str], *, refuses: bool = False) -> str:
        """The output of a command of Slurm's."""
        own = {name: value for name, value in os.environ.items() if name not in supervisor.PRIVATE}  # jobs inherit it
        done = run_command(words[0], words, self._timeout, own)
        if done.returncode == 0:
            return done.stdout
        errors = done.stderr.strip().splitlines()
        problem = errors[-1].removeprefix(f"{words[0]}: ").removeprefix("error: ") if errors else f"`{words[0]}` failed"
        if refuses and (limit := _SUBMIT_LIMIT.search(done.stderr)):
            raise NotYet(why_it_waits(limit[0]))
        if refuses and not _DOWN.search(done.stderr):
            raise Refused(f"Slurm refuses it: {problem}")
        raise Unreachable(problem)

    def check(self) -> Iterator[Check]:
        for command in ("sbatch", "squeue", "scancel", "sinfo"):
            place = shutil.which(command)
            yield Check(command, place is not None, place or "not found", "" if place else "install Slurm's commands")
            if place is None:
                return
        answer = self._run(["sinfo", "--noheader", "--format=%R|%a|%D|%c|%m|%G"])
        rows = [line.split("|") for line in answer.splitlines() if line.count("|") == 5]
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
        yield from self._place.check()


def batch_script(python: str, arguments: Sequence[Sequence[str]], nodes: int = 1, grace: float = 0.0) -> str:
    """The script of a batch job that runs an agent on each node, or of an array whose tasks do."""
    cases = [f"{number}) set -- {shlex.join(words)} ;;" for number, words in enumerate(arguments, 1)]
    stale = " ".join(f'"$1"/{{,node-*/}}{name}' for name in (supervisor.BEGUN, supervisor.TOLD, supervisor.OUTCOME))
    agent = f'{shlex.join(agent_command(python, []))} "$@"'
    # on several nodes, the first that ends badly ends all, so others let the first node save
    named = f'export {NODE}="$SLURM_PROCID" {ADDRESS}="$(address "$SLURMD_NODENAME")"'
    wait = f'[ "$SLURM_PROCID" = 0 ] || [ "$asked" ] || sleep {grace:.0f}'
    on_each = f'{named}; trap asked=1 TERM; "$@" || {{ {wait}; exit 1; }}'
    lines = [
        "#!/bin/bash",
        'case "${SLURM_ARRAY_TASK_ID:-1}" in',
        *cases,
        "esac",
        "umask 077",
        f'mkdir -p "$1" && exec >> "$1/{PRINTED}" 2>&1',
        # what was left by one that Slurm has preempted, and begins again
        f'[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] || rm -f {stale}',
        *(_ADDRESSES if nodes > 1 else ()),
        'exec srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \\',
        f"    {agent}" if nodes == 1 else f"    bash -c {shlex.quote(on_each)} bash {agent}",
    ]
    return "\n".join(lines) + "\n"


def status_of(id: str, state: str, reason: str, last_words: str) -> EngineStatus:
    """The status of an attempt, by Slurm's state and reason of its job."""
    if state in _WAITING:
        return EngineStatus("waiting", reason=why_it_waits(reason), id=id)
    if state in _KNOWS_WHY:
        outcome, why = _KNOWS_WHY[state]
        return EngineStatus("over", outcome, reason=why, knows_why=True, id=id)
    if state not in _ENDED:
        return EngineStatus("running", reason="" if state in _RUNNING else f"Slurm says: {state}", id=id)
    more = ", ".join(word for word in (reason, last_words) if word not in ("", "None"))
    return EngineStatus("over", _ENDED[state], reason=f"Slurm says: {state}{f' ({more})' if more else ''}", id=id)
