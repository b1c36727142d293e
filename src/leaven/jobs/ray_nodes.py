"""The driver of a Ray job on several nodes: starts the attempt's agent on each, and waits for all of them.

It runs on the cluster, with the cluster's Ray. torchrun, which each agent starts, connects the nodes. An agent ends
with the worker that started it, and lets its program save.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from leaven.jobs import supervisor
from leaven.jobs.agent import ADDRESS, FIRST, NODE
from leaven.jobs.attempt_processes import end_with
from leaven.jobs.environments.launching import agent_command


def main() -> None:
    """Run the agents; the exit code is the worst of theirs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    args, words = parser.parse_known_args()
    import ray
    from ray.util.placement_group import placement_group

    ray.init(address="auto", log_to_driver=True)
    needs = {"CPU": args.cpus, **({"GPU": args.gpus} if args.gpus else {})}
    group = placement_group([needs] * args.nodes, strategy="STRICT_SPREAD")
    while not ray.wait([group.ready()], timeout=1.0)[0]:
        if Path(words[0], supervisor.STOP).exists():
            raise SystemExit(1)  # it was asked to stop before it began
    sys.exit(_run(ray, group, args.nodes, needs, words))


def _run(ray: Any, group: Any, nodes: int, needs: dict[str, int], words: list[str]) -> int:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    def on(node: int, function: Any) -> Any:
        where = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=node)
        options = {"num_cpus": needs["CPU"], "num_gpus": needs.get("GPU", 0), "max_retries": 0}
        return ray.remote(function).options(scheduling_strategy=where, **options)

    first = ray.get(on(0, address).remote())
    left = [on(node, run_agent).remote(node, first, words) for node in range(nodes)]
    return max(abs(int(code)) for code in ray.get(left))


def address() -> str:
    """The address of this node."""
    import ray

    return str(ray.util.get_node_ip_address())


def run_agent(node: int, first: str, words: list[str]) -> int:
    """Run the agent of a node to its end; its exit code."""
    parent = os.getpid()
    process = subprocess.Popen(
        agent_command(sys.executable, words),
        env={**os.environ, NODE: str(node), FIRST: first, ADDRESS: address()},
        preexec_fn=lambda: end_with(parent, signal.SIGTERM),
    )
    return process.wait()


if __name__ == "__main__":
    main()
