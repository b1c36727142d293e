"""A Slurm cluster of the tests' own: all nodes on this machine, GPUs that are none, in a temporary folder.

Each node is a slurmd under a name and a port of its own. Everything is started as root and stopped by its process id;
nothing in /etc is touched.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.unit.jobs.plain_jobs import wait_until

PATIENCE = 900.0  # seconds: beside other programs, daemons and jobs may not run for long
_COMMAND = 300.0  # for one of Slurm's commands, which itself waits for the controller
_LAST = 2000  # characters of a daemon's log
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")


def why_not() -> str:
    """Why no cluster can be started; empty if one can."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"Slurm is not installed: {', '.join(missing)} not found"
    return "" if os.geteuid() == 0 else "a Slurm of the tests' own is started by root"


@dataclass
class Cluster:
    """A running cluster. `controller` can be killed and started again."""

    place: Path
    controller: "subprocess.Popen[bytes]"
    others: "list[subprocess.Popen[bytes]]"

    @property
    def settings(self) -> dict[str, str]:
        """What Slurm's commands need in the environment."""
        return {"SLURM_CONF": str(self.place / "slurm.conf")}

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words, env={**os.environ, **self.settings}, capture_output=True, text=True, timeout=_COMMAND, check=True
        )
        return done.stdout

    def wait(self, is_so: Callable[[], object], what: str) -> None:
        """Wait for a condition, for as long as a busy machine may take, and end with what Slurm knows."""
        wait_until(is_so, what, PATIENCE, self.told)

    def told(self) -> str:
        """What Slurm knows: its jobs and nodes, and what its daemons have written last."""
        parts = []
        for words in (("squeue", "-t", "all", "-o", "%i %T %r %N %j"), ("sinfo", "-N", "-o", "%N %T %E")):
            try:
                parts.append(self.run(*words))
            except (subprocess.SubprocessError, OSError) as problem:
                parts.append(str(problem))
        for file in sorted((self.place / "log").iterdir()):
            parts.append(f"{file.name}:\n{file.read_text(errors='replace')[-_LAST:]}")
        return "\n".join(parts)

    def start_controller(self) -> None:
        self.controller = _start(self.place, "slurmctld", "-D", "-f", str(self.place / "slurm.conf"))

    def save(self, job: str) -> None:
        """Wait until the controller has written what it knows of a job. One that is killed before gives its number to
        another, and Slurm drains the node where both run."""
        file = self.place / "state" / "job_state"
        before = file.stat().st_mtime_ns if file.exists() else 0
        self.run("scontrol", "update", f"jobid={job}", "comment=saved")
        wait_until(
            lambda: file.exists() and file.stat().st_mtime_ns > before, "the controller's state", PATIENCE, self.told
        )

    def kill_controller(self) -> None:
        self.controller.send_signal(signal.SIGKILL)
        self.controller.wait(30)


@contextmanager
def cluster(nodes: int = 2, cores: int = 2, gpus: int = 2) -> Iterator[Cluster]:
    """Start a cluster; it is stopped and removed at the end."""
    place = Path(tempfile.mkdtemp(prefix="lv-slurm-"))
    for name in ("munge", "state", "log", *(f"spool{n}" for n in range(nodes))):
        (place / name).mkdir()
    place.chmod(0o755)
    (place / "munge").chmod(0o755)
    (place / "munge" / "key").write_bytes(os.urandom(1024))
    (place / "munge" / "key").chmod(0o400)
    (place / "slurm.conf").write_text(_configuration(place, nodes, cores, gpus))
    (place / "cgroup.conf").write_text("CgroupAutomount=no\nCgroupPlugin=cgroup/v1\n")
    (place / "gres.conf").write_text(
        "".join(f"NodeName=n{n} Name=gpu File={_gpu(place, n, g)}\n" for n in range(nodes) for g in range(gpus))
    )
    found = Cluster(place, _munged(place), [])
    found.others.append(found.controller)
    try:
        found.wait(lambda: (place / "munge" / "sock").exists(), "munged")
        found.start_controller()
        configured = ("-f", str(place / "slurm.conf"))
        found.others += [_start(place, "slurmd", "-D", *configured, "-N", f"n{n}") for n in range(nodes)]
        found.wait(lambda: _is_idle(found, nodes), "Slurm's nodes to be idle")
        yield found
    finally:
        for process in (found.controller, *reversed(found.others)):
            process.terminate()
        for process in (found.controller, *found.others):
            with suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()
        shutil.rmtree(place, ignore_errors=True)


def _munged(place: Path) -> "subprocess.Popen[bytes]":
    parts = {"socket": "sock", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={place / 'munge' / name}" for option, name in parts.items()]
    return _start(place, "munged", "--foreground", "--force", *options)


def _start(place: Path, *words: str) -> "subprocess.Popen[bytes]":
    with (place / "log" / f"{words[0]}.out").open("ab") as log:
        return subprocess.Popen(
            words, stdout=log, stderr=log, env={**os.environ, "SLURM_CONF": str(place / "slurm.conf")}
        )


def _is_idle(found: Cluster, nodes: int) -> bool:
    try:
        return found.run("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split() == ["idle"] * nodes
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False


def _gpu(place: Path, node: int, number: int) -> Path:
    file = place / f"gpu{node}-{number}"
    if not file.exists():
        os.mknod(file, 0o600 | 0o020000, os.makedev(1, 3))
    return file


def _ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def _configuration(place: Path, nodes: int, cores: int, gpus: int) -> str:
    first, *rest = _ports(nodes + 1)
    host = socket.gethostname().partition(".")[0]
    lines = [
        "ClusterName=leaven",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={first}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={place}/munge/sock,cred_expire=6",
        "CredType=cred/munge",
        "MpiDefault=none",
        "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
        "SlurmdParameters=config_overrides",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/affinity",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "JobRequeue=1",
        "ReturnToService=2",
        f"StateSaveLocation={place}/state",
        f"SlurmdSpoolDir={place}/spool%n".replace("spooln", "spool"),
        f"SlurmctldPidFile={place}/slurmctld.pid",
        f"SlurmdPidFile={place}/slurmd-%n.pid",
        f"SlurmctldLogFile={place}/log/slurmctld.log",
        f"SlurmdLogFile={place}/log/slurmd-%n.log",
        # on a busy machine a daemon may not run for seconds: a node that has not answered in time is not used for two
        # minutes, and its job begins again after some more
        "MessageTimeout=100",
        "SlurmctldTimeout=30",
        "SlurmdTimeout=300",
        "KillWait=120",
        "MinJobAge=3600",
        "InactiveLimit=0",
        "AccountingStorageType=accounting_storage/none",
        "GresTypes=gpu",
    ]
    for number, port in enumerate(rest):
        has = f"CPUs={cores} RealMemory=4000 Gres=gpu:{gpus} State=UNKNOWN"
        lines.append(f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {has}")
    names = ",".join(f"n{number}" for number in range(nodes))
    lines += [
        f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=120",
        f"PartitionName=urgent Nodes={names} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF",
    ]
    return "\n".join(lines) + "\n"
