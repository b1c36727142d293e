"""The commands of attempts: what runs a program, by torchrun where it has several processes, and what an agent."""

import zlib
from collections.abc import Sequence
from typing import assert_never

from leaven.formats import run_folder
from leaven.jobs.environments.environment import Task
from leaven.jobs.states import Entry

FIRST_NODE = "@first-node"  # in a command for several nodes: the first one's address, known where it runs
THIS_NODE = "@this-node"  # and that of the node itself, since its name may mean nothing to the others

_PATIENCE = 3600  # seconds for which a node waits for the others: an engine may start them one by one
_ENDPOINT, _OWN = "--rdzv-endpoint=", "--local-addr="  # the options of torchrun that have them
_TORCHRUN = "leaven.runs.torchrun"


def agent_command(python: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs the agent of an attempt."""
    return [python, "-m", "leaven.jobs.agent", *arguments]


def with_addresses(command: Sequence[str], first: str, this: str) -> list[str]:
    """A command for several nodes, with their addresses; a folder may have the name of one."""
    endpoint, own = f"{_ENDPOINT}{FIRST_NODE}:", f"{_OWN}{THIS_NODE}"
    known = [word.replace(own, _OWN + this) if word == own else word for word in command]
    return [word.replace(FIRST_NODE, first) if word.startswith(endpoint) else word for word in known]


def command_of(task: Task, python: str) -> list[str]:
    """The command that runs an attempt on each of its machines, from the run's last checkpoint if there is one."""
    match task.entry:
        case Entry.SWEEP:
            return [python, "-m", "leaven", "resume", str(task.run)]
        case Entry.END_SWEEP:
            return [python, "-m", "leaven", "finish", str(task.run)]
        case Entry.PLAIN:
            return [python, str(task.run / run_folder.PROGRAM), *task.arguments]
        case Entry.PROGRAM:
            return [python, "-m", *_launcher(task)]
        case _:
            assert_never(task.entry)


def _launcher(task: Task) -> list[str]:
    """The module that starts a program in as many processes as it wants, with its arguments."""
    words = [str(task.run / run_folder.PROGRAM), "--resume", str(task.run), *task.arguments]
    nodes, processes = task.resources.nodes, task.resources.processes
    if nodes == processes == 1:
        return ["leaven.runs.launch", *words]
    meeting = ["--standalone"]
    if nodes > 1:
        port = 20_000 + zlib.crc32(task.attempt.encode()) % 20_000  # attempts on the same machine have different ones
        endpoint = f"{_ENDPOINT}{FIRST_NODE}:{port}"
        meeting = [f"--nnodes={nodes}", "--rdzv-backend=c10d", endpoint, f"--rdzv-id={task.attempt}"]
        meeting += [f"--rdzv-conf=join_timeout={_PATIENCE},read_timeout={_PATIENCE}", f"{_OWN}{THIS_NODE}"]
    return [_TORCHRUN, *meeting, f"--nproc-per-node={processes}", *words]
