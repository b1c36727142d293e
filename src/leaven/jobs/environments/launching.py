"""The command that runs a package in a run folder: its program, by torchrun where it has several processes."""

from leaven.formats import run_folder
from leaven.jobs.environments.environment import Task


def command_of(task: Task, python: str) -> list[str]:
    """What runs an attempt on one machine, from the run's last checkpoint if it has one."""
    run = str(task.run)
    if task.entry == "sweep":
        return [python, "-m", "leaven", "resume", run]
    if task.entry == "end sweep":
        return [python, "-m", "leaven", "finish", run]
    program = str(task.run / run_folder.PROGRAM)
    if task.entry == "plain":
        return [python, program, *task.arguments]
    words = [program, "--resume", run, *task.arguments]
    if task.resources.processes > 1:
        count = str(task.resources.processes)
        return [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", count, *words]
    return [python, "-m", "leaven.runs.launch", *words]
