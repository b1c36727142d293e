"""A Ray cluster of the tests' own: all nodes on this machine, in a network namespace, since Ray listens everywhere.

Nodes are processes that are stopped by their ids. The thread that runs a test is moved into the namespace, so that it
reaches the dashboard.
"""

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.jobs.plain_jobs import wait_until

ADDRESS = "http://127.0.0.1:8265"
_PORT = 6399
_NEW_NETWORK = 0x40000000


def why_not() -> str:
    """Why no cluster can be started; empty if one can."""
    if importlib.util.find_spec("ray") is None or importlib.util.find_spec("opencensus") is None:
        return "Ray is not installed: pip install 'ray[default]'"
    if shutil.which("ip") is None:
        return "a network namespace is made by the command `ip`, which is not there"
    return "" if os.geteuid() == 0 else "a network namespace is made by root"


@dataclass
class Cluster:
    """A running cluster; `nodes` are its processes, the head first."""

    place: Path
    namespace: str
    nodes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start a node of two cores."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=2", "--num-gpus=0"]
        command += ["--object-store-memory=80000000", "--node-ip-address=127.0.0.1", *words]
        variables = {**os.environ, "RAY_TMPDIR": str(self.place), "RAY_USAGE_STATS_ENABLED": "0"}
        variables |= {"RAY_health_check_failure_threshold": "2", "RAY_health_check_period_ms": "500"}
        with (self.place / f"node{len(self.nodes)}.log").open("wb") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command],
                env=variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.nodes.append(process)
        return process

    def add(self) -> "Node":
        """Start one more node, and wait until it is there."""
        before = self._raylets()
        process = self.start(f"--address=127.0.0.1:{_PORT}")
        wait_until(lambda: len(self._raylets()) > len(before), "a node of Ray's", 120)
        return Node(process, *set(self._raylets()) - set(before))

    def _raylets(self) -> list[int]:
        return _processes(f"--session_dir={self.place}")

    def kill(self, node: "Node", *, with_jobs: bool) -> None:
        """End a node without a word: its raylet, and also the jobs on it, as if its machine was gone."""
        jobs = descendants(node.raylet) if with_jobs else []
        for pid in [node.process.pid, node.raylet, *jobs]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.process.wait(30)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError):
                if int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found += [int(name), *descendants(int(name))]
    return found


@dataclass(frozen=True)
class Node:
    """A node that was added: its process, and the one that runs jobs."""

    process: "subprocess.Popen[bytes]"
    raylet: int


def _processes(word: str) -> list[int]:
    """The raylets that were started with a word in their command."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                words = Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace").split("\0")
                if words[0].endswith("/raylet") and any(one.startswith(word) for one in words):
                    found.append(int(name))
    return found


def _all_processes(place: Path) -> list[int]:
    """All processes that the cluster has started: they carry its folder in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):
                if f"RAY_TMPDIR={place}".encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
    return found


def _answers() -> bool:
    from urllib.request import urlopen

    try:
        with urlopen(f"{ADDRESS}/api/jobs/", timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a cluster of one node, and move this thread into its network."""
    place, name = Path(tempfile.mkdtemp(prefix="lvr")), f"leaven-{os.getpid()}"
    libc = ctypes.CDLL(None, use_errno=True)
    found = Cluster(place, name)
    subprocess.run(["ip", "netns", "add", name], check=True)
    with open("/proc/self/ns/net") as outside:
        try:
            subprocess.run(["ip", "netns", "exec", name, "ip", "link", "set", "lo", "up"], check=True)
            found.start("--head", f"--port={_PORT}", "--dashboard-host=127.0.0.1", "--include-dashboard=true")
            with open(f"/var/run/netns/{name}") as inside:
                assert libc.setns(inside.fileno(), _NEW_NETWORK) == 0
            wait_until(_answers, "Ray's dashboard", 180)
            yield found
        finally:
            assert libc.setns(outside.fileno(), _NEW_NETWORK) == 0
            for pid in [node.pid for node in found.nodes] + _all_processes(place):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for node in found.nodes:
                node.wait(30)
            wait_until(lambda: not _all_processes(place), "Ray's processes to end")
            subprocess.run(["ip", "netns", "del", name], check=False)
            shutil.rmtree(place, ignore_errors=True)
