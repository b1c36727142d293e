"""The command that runs a package in a run folder: its program, by torchrun where it has several processes."""

import zlib

from leaven.formats import run_folder
from leaven.jobs.environments.environment import Task

FIRST_NODE = "@first-node"  # in a command for several nodes: the first one's address, known where it runs
THIS_NODE = "@this-node"  # and that of the node itself, since its name may mean nothing to the others


def command_of(task: Task, python: str) -> list[str]:
    """What runs an attempt on one machine, or on each of several, from the run's last checkpoint if it has one."""
    run = str(task.run)
    if task.entry == "sweep":
        return [python, "-m", "leaven", "resume", run]
    if task.entry == "end sweep":
        return [python, "-m", "leaven", "finish", run]
    program = str(task.run / run_folder.PROGRAM)
    if task.entry == "plain":
        return [python, program, *task.arguments]
    words = [program, "--resume", run, *task.arguments]
    nodes, processes = task.resources.nodes, task.resources.processes
    if nodes > 1:
        return [python, "-m", "torch.distributed.run", *_rendezvous(task), f"--nproc-per-node={processes}", *words]
    if processes > 1:
        return [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *words]
    return [python, "-m", "leaven.runs.launch", *words]


def _rendezvous(task: Task) -> list[str]:
    """How several nodes find each other. Attempts on the same machine have different ports."""
    port = 20_000 + zlib.crc32(task.attempt.encode()) % 20_000
    endpoint = f"--rdzv-endpoint={FIRST_NODE}:{port}"
    found = [f"--nnodes={task.resources.nodes}", "--rdzv-backend=c10d", endpoint, f"--rdzv-id={task.attempt}"]
    return [*found, f"--local-addr={THIS_NODE}"]
