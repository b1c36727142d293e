"""The commands of attempts: what runs a program, by torchrun where it has several processes, and what an agent."""

import zlib
from collections.abc import Sequence
from typing import assert_never

from leaven.formats import run_folder
from leaven.jobs.environments.environment import Task
from leaven.jobs.states import Entry

FIRST_NODE = "@first-node"  # in a command for several nodes: the first one's address, known where it runs
THIS_NODE = "@this-node"  # and that of the node itself, since its name may mean nothing to the others


def agent_command(python: str, arguments: Sequence[str]) -> list[str]:
    """What runs the agent of an attempt."""
    return [python, "-m", "leaven.jobs.agent", *arguments]


def command_of(task: Task, python: str) -> list[str]:
    """What runs an attempt on one machine, or on each of several, from the run's last checkpoint if it has one."""
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
    if nodes > 1:
        return ["torch.distributed.run", *_rendezvous(task), f"--nproc-per-node={processes}", *words]
    if processes > 1:
        return ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *words]
    return ["leaven.runs.launch", *words]


def _rendezvous(task: Task) -> list[str]:
    """How several nodes find each other. Attempts on the same machine have different ports."""
    port = 20_000 + zlib.crc32(task.attempt.encode()) % 20_000
    endpoint = f"--rdzv-endpoint={FIRST_NODE}:{port}"
    found = [f"--nnodes={task.resources.nodes}", "--rdzv-backend=c10d", endpoint, f"--rdzv-id={task.attempt}"]
    return [*found, f"--local-addr={THIS_NODE}"]
