"""The batch script of attempts on Slurm: runs the agent on each node, by one task of `srun`."""

import shlex
from collections.abc import Sequence

from leaven.jobs import supervisor
from leaven.jobs.agent import ADDRESS, FIRST, NODE
from leaven.jobs.environments.launching import agent_command

PRINTED = "slurm.log"  # the file with what Slurm and the agent print; the program's log is the agent's
_ADDRESSES = (  # by which nodes can reach each other
    "address() { scontrol show node \"$1\" | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p'; }",
    "export -f address",
    f'export {FIRST}="$(address "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)")"',
)


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
