"""Jobs for tests: packages of plain programs that don't load torch, and what is needed to run them."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from leaven import __version__
from leaven.formats.run_folder import PLAN, PLAN_TEXT, PROGRAM, RECIPE, RESOLVED
from leaven.formats.sweep_folder import TRIALS, Trial, Trials, trials_json
from leaven.jobs import requests
from leaven.jobs.attempt_processes import ATTEMPT
from leaven.jobs.manifest import Manifest
from leaven.jobs.package import Package, make_package
from leaven.jobs.reconcile import Reconciler
from leaven.jobs.resources import Resources
from leaven.jobs.settings import Settings
from leaven.jobs.states import ENDED, Entry, State
from leaven.jobs.store.connection import open_engine, sqlite_url
from leaven.jobs.store.for_loop import LoopStore
from leaven.jobs.store.records import Job

SECONDS = 300.0  # after which something that is waited for counts as missing: beside other programs, all takes long


def wait_until(
    is_so: Callable[[], object], what: str = "", seconds: float = SECONDS, told: Callable[[], str] = str
) -> None:
    """Wait for a condition; `told` says what is known where it does not come true."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what or is_so}\n{told()}"
        time.sleep(0.02)


def settings_in(folder: Path, store: str | None = None, **local: object) -> Settings:
    """Settings with a folder of their own, and a local environment that can run four small jobs at once."""
    given = {"kind": "local", "cores": 4, "gpus": 0, "grace": 5.0, **local}
    return Settings(folder, store or sqlite_url(folder / "jobs.sqlite"), {"local": given}, backoff=0.05)


def plain(text: str, *arguments: str, name: str = "plain") -> Package:
    """A package whose program is a text."""
    return make_package(Manifest(name, __version__, Entry.PLAIN, tuple(arguments)), {PROGRAM: text.encode()})


def sweep(text: str, count: int = 2) -> Package:
    """A package of a sweep, whose program is a text."""
    trials = [Trial(f"trial-{number:02}", "", {}, [f"--number={number}"]) for number in range(1, count + 1)]
    files = dict.fromkeys((PLAN, PLAN_TEXT, RECIPE, RESOLVED), b"")
    files |= {PROGRAM: text.encode(), TRIALS: trials_json(Trials("val.loss", True, False, trials)).encode()}
    files["code-1/0/mine.py"] = b"HELLO = 1"
    return make_package(Manifest("swept", __version__, Entry.SWEEP), files)


def order(text: str, *arguments: str, **more: object) -> requests.Order:
    """An order for a program of one core."""
    found = requests.Order(plain(text, *arguments), resources=Resources(cpus=1), retries=0)
    return replace(found, **more)  # type: ignore[arg-type]


class Queue:
    """A store with a reconcile loop that is turned by hand, in this process.

    What it waits for counts as missing after some seconds, and `told` says what an engine knows of it.
    """

    def __init__(self, settings: Settings, seconds: float = SECONDS, told: Callable[[], str] = str) -> None:
        settings.folder.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self._seconds = seconds
        self._told = told
        self.store = requests.open_store(settings)
        self._engine = open_engine(settings.store)
        self.restart()

    def restart(self) -> None:
        """Forget all that is in memory, as a coordinator that was killed."""
        agent = self.store.agent_of(self.settings.host, self.settings.folder)
        self.loop = Reconciler(LoopStore(self._engine, agent), self.settings)

    def submit(self, *orders: requests.Order) -> list[int]:
        return requests.submit(self.store, self.settings, orders)

    def job(self, id: int) -> Job:
        return self.store.job(str(id))

    def turn(self, until: Callable[[], object], what: str = "", seconds: float | None = None) -> None:
        """Turn the loop until something is so."""

        def turned() -> object:
            self.loop.tick()
            return until()

        wait_until(turned, what, seconds or self._seconds, self._told)

    def turn_until(self, id: int, *states: State) -> Job:
        self.turn(lambda: self.job(id).state in states, f"job {id} to be {states}")
        return self.job(id)

    def finish(self, *ids: int) -> list[Job]:
        """Turn the loop until some jobs have ended."""
        self.turn(lambda: all(self.job(id).state in ENDED for id in ids), f"jobs {ids} to end")
        return [self.job(id) for id in ids]

    def log(self, id: int) -> str:
        attempts = self.store.attempts(id)
        files = [self.settings.attempts / one.id / "log" for one in attempts]
        return "".join(file.read_text() for file in files if file.is_file())

    def close(self) -> None:
        self.store.close()
        self._engine.dispose()


def marked_processes(prefix: str = "") -> list[int]:
    """The processes that carry an attempt whose id begins so."""
    mark = f"{ATTEMPT}={prefix}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word.startswith(mark) for word in words):
                found.append(int(name))
    return found


def supervisors(folder: Path) -> list[int]:
    """The supervisors of attempts in a folder."""
    return _running(lambda words: any(word.startswith(f"{folder}/") for word in words) and "supervisor" in words[4])


def agents(folder: Path) -> list[int]:
    """The agents of attempts in a folder that run elsewhere, which is on this machine too."""
    return _running(
        lambda words: "leaven.jobs.agent" in words[:3] and "srun" not in words[0] and words[3].startswith(f"{folder}/")
    )


def coordinators(folder: Path) -> list[int]:
    """The coordinators of a folder of jobs."""
    return _running(lambda words: "leaven.jobs.coordinator" in words and str(folder) in words)


def _running(is_meant: Callable[[Sequence[str]], bool]) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if len(words) > 4 and is_meant(words):
                found.append(int(name))
    return found
