"""Measure the coordinator: submit rate, scheduling latency, a list of 10,000 jobs, idle needs, its HTTP API.

Exits with 1 if a goal is missed. README.md in this folder describes the method.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import jobs_http
from command_line import CommandLine

from leaven import __version__
from leaven.formats.run_folder import PROGRAM
from leaven.jobs import coordinator, requests
from leaven.jobs.manifest import Manifest
from leaven.jobs.package import make_package
from leaven.jobs.resources import Resources
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED, Entry, State, Wanted
from leaven.jobs.store.connection import sqlite_url
from leaven.jobs.store.for_users import JobStore, Submission
from leaven.jobs.supervisor import LOG

SUBMITS = 300
LATENCIES = 50
SHORT = 200
LISTED = 10_000
REQUESTS = 20  # of each client of the HTTP API
IDLE_SECONDS = 60.0
MOST_LIST_SECONDS = 1.0
MOST_IDLE_SHARE = 0.01
MOST_IDLE_BYTES = 80_000_000


def main() -> int:
    line = CommandLine(__doc__)
    for name, usual in (("submits", SUBMITS), ("latencies", LATENCIES), ("short", SHORT), ("listed", LISTED)):
        line.add(f"--{name}", type=int, default=usual, help="number of jobs (default: %(default)s)")
    line.add("--requests", type=int, default=REQUESTS, help="of each client of the API (default: %(default)s)")
    line.add("--idle", type=float, default=IDLE_SECONDS, help="seconds to watch (default: %(default)s)")
    args = line.read(submits=5, latencies=4, short=3, listed=100, requests=2, idle=1.0)
    missed = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # the last programs may still write
        settings = _settings(Path(folder))
        store = requests.open_store(settings)
        try:
            measure_submits(settings, store, args.submits)
            _lead(settings, store)
            measure_latency(settings, store, args.latencies)
            measure_short_jobs(settings, store, args.short)
            missed += measure_idle(settings, store, args.idle)
            coordinator.stop(settings, store)
            missed += measure_list(settings, store, args.listed)
            missed += measure_server(settings, store, args.requests)
        finally:
            coordinator.stop(settings, store)
    for goal in missed:
        print(f"missed: {goal}")
    return line.judged(not missed)


def _settings(folder: Path) -> Settings:
    local = {"kind": "local", "cores": max(2, os.cpu_count() or 1), "gpus": 0}
    return Settings(folder, sqlite_url(folder / "jobs.sqlite"), {"local": local}, backoff=0.1)


def _order(text: str = "", *arguments: str) -> requests.Order:
    package = make_package(Manifest("short", __version__, Entry.PLAIN, arguments), {PROGRAM: text.encode()})
    return requests.Order(package, resources=Resources(cpus=1))


def _lead(settings: Settings, store: JobStore) -> None:
    coordinator.start(settings, stays=True)
    while not store.agents():
        time.sleep(0.01)


def _wait(store: JobStore, ids: list[int]) -> None:
    while any(store.job(str(id)).state not in ENDED for id in ids[-1:]) or set(store.counts()) - set(ENDED):
        time.sleep(0.05)


def measure_submits(settings: Settings, store: JobStore, count: int) -> None:
    """Each job in a transaction of its own, on the disk when the call returns."""
    began = time.perf_counter()
    ids = [requests.submit(store, settings, [_order()])[0] for _ in range(count)]
    seconds = time.perf_counter() - began
    store.want(ids, Wanted.STOP)
    print(f"submits, one by one: {count / seconds:,.0f} per second")


def measure_latency(settings: Settings, store: JobStore, count: int) -> None:
    """From the submit to the first line of the program, with nothing else to do."""
    waits = []
    for number in range(count):
        file = settings.folder / f"began{number}"
        text = "import sys, time; open(sys.argv[1] + '.new', 'w').write(str(time.time())); import os; "
        order = _order(text + "os.replace(sys.argv[1] + '.new', sys.argv[1])", str(file))
        began = time.time()
        ids = requests.submit(store, settings, [order])
        coordinator.start(settings)
        while not file.exists():
            time.sleep(0.002)
        waits.append(float(file.read_text()) - began)
        _wait(store, ids)
    ordered = sorted(waits)
    low, high = ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]
    print(f"submit to first line of the program: {1000 * median(waits):.0f} ms ({1000 * low:.0f} to {1000 * high:.0f})")


def measure_short_jobs(settings: Settings, store: JobStore, count: int) -> None:
    began = time.perf_counter()
    ids = requests.submit(store, settings, [_order() for _ in range(count)])
    coordinator.start(settings)
    _wait(store, ids)
    assert store.counts()[State.SUCCEEDED] >= count
    print(f"empty jobs, {os.cpu_count()} at once: {count / (time.perf_counter() - began):.1f} per second")


def measure_idle(settings: Settings, store: JobStore, seconds: float) -> list[str]:
    """Processor time and memory of a coordinator that has nothing to do."""
    pid = int(str((coordinator.status(settings, store) or {})["pid"]))
    before, began = _used(pid), time.perf_counter()
    time.sleep(seconds)
    share = (_used(pid) - before) / (time.perf_counter() - began)
    memory = int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) * 1024
    print(f"idle coordinator: {100 * share:.2f} % of a core, {memory / 1e6:.0f} MB")
    return [
        *([f"idle share {share:.4f} > {MOST_IDLE_SHARE}"] if share > MOST_IDLE_SHARE else []),
        *([f"idle memory {memory} > {MOST_IDLE_BYTES}"] if memory > MOST_IDLE_BYTES else []),
    ]


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_list(settings: Settings, store: JobStore, count: int) -> list[str]:
    """`leaven jobs --all` with many queued jobs: the whole command, and without the start of Python."""
    one = _order()
    one.package.save(settings.packages)
    entry = Submission(None, "queued", one.package.hash, "local", {}, Entry.PLAIN, (), "/run", "/run", Resources(), 0)
    began = time.perf_counter()
    store.submit([entry] * count)
    print(f"submits, all at once: {count / (time.perf_counter() - began):,.0f} per second")
    environment = {**os.environ, "LEAVEN_JOBS": str(settings.folder)}
    words = [sys.executable, "-m", "leaven", "jobs", "--all"]
    times, used = [], []
    for _ in range(5):
        before, began = os.times(), time.perf_counter()
        done = subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True, check=True)
        times.append(time.perf_counter() - began)
        now = os.times()
        used.append(now.children_user + now.children_system - before.children_user - before.children_system)
    assert done.stdout.count("queued") >= count
    began = time.perf_counter()
    found = store.jobs()
    json.dumps([job.id for job in found])
    print(
        f"`leaven jobs --all` with {count:,} queued: {median(times):.2f} s, "
        f"{median(used):.2f} s of CPU time; reading alone: {time.perf_counter() - began:.2f} s"
    )
    return [f"the list takes {median(used):.2f} s of CPU time"] if median(used) > MOST_LIST_SECONDS else []


def measure_server(settings: Settings, store: JobStore, count: int) -> list[str]:
    """The HTTP API, with all those jobs queued."""
    last = store.jobs(states=ENDED, limit=1)[0]
    log = settings.attempts / store.attempts(last.id)[0].id / LOG
    share = min(1.0, count / REQUESTS)
    with jobs_http.serving(settings.folder) as server:
        missed = jobs_http.measure_memory(server, int(jobs_http.SENT_BYTES * share))
        missed += jobs_http.measure_requests(server, _order().package.content, last.id, count)
        missed += jobs_http.measure_log(server, log, last.id, int(jobs_http.LOG_BYTES * share))
    return missed


if __name__ == "__main__":
    sys.exit(main())
