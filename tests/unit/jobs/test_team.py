"""A team at work: two users with two projects each share PostgreSQL, a machine and Slurm, strangers send what they like
to the port, and everything is killed now and then. `LEAVEN_TEAM_JOBS` says how many jobs there are."""

import contextlib
import json
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.unit.jobs import as_user, cluster, postgres
from tests.unit.jobs.plain_jobs import agents, coordinators, marked_processes, plain, supervisors, wait_until

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.unit.jobs.served_api import Api, listening
from tests.unit.jobs.strangers import Strangers
from tests.unit.jobs.test_chaos import PROGRAM, Killer, check_ending
from tests.unit.jobs.test_trainings import (
    MINE,
    RECIPE,
    epochs_in,
    packed,
    supervisors_of,
    trained_without_interruption,
    weights,
)

from leaven.jobs.reconcile import LONGEST_BACKOFF
from leaven.jobs.states import ENDED, NOT_SEEN, State
from leaven.jobs.store.connection import open_engine
from leaven.jobs.store.failures import StoreError
from leaven.jobs.store.for_users import JobStore
from leaven.jobs.store.records import Job

JOBS = int(os.environ.get("LEAVEN_TEAM_JOBS") or 100)
USERS = {"ann": "nobody", "bob": "games"}  # who they are on this machine: Slurm wants them to have names
PROJECTS = ("red", "blue")
EPOCHS = 4
AT_ONCE = 10  # jobs that are submitted together
WITHOUT_REASON = (
    300.0  # seconds for which a job may wait and nobody knows why: on a busy machine, coordinators start late
)
MOST_BYTES = 200_000_000  # of the server's memory
NOTES = """
import fcntl, os, sys
if "PLACE" in os.environ and not hasattr(sys, "noted"):
    sys.noted = os.open(os.environ["PLACE"] + ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(sys.noted, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        open(os.environ["PLACE"] + ".twice", "w").close()
        os._exit(3)
    with open(os.environ["PLACE"] + ".begun", "a") as file:
        file.write(" ".join([os.environ["LEAVEN_ATTEMPT"], str(os.getuid()), os.getcwd()]) + "\\n")
"""


@dataclass
class Expected:
    """A job of the scenario: whose it is, and how it ends."""

    name: str
    user: "User"
    project: str
    environment: str
    kind: str  # "ends", "fails", "fails once", "cancelled", "after a failure", "training"
    after: list[str] = field(default_factory=list)
    kill_at: int = 0  # after which epoch a training is killed

    @property
    def written(self) -> Path:
        """Where its program notes what it does, with different endings."""
        return self.user.place / "notes" / self.name

    def order(self, choose: random.Random) -> dict[str, Any]:
        found = {"name": self.name, "environment": self.environment, "after": self.after, "retries": 50}
        if self.kind == "training":
            package = str(self.user.place / self.project / "small.job")
            return {**found, "package": package, "variables": {"PLACE": str(self.written)}}
        found["retries"] = 6 if self.kind == "fails" else 50
        does = self.kind if self.kind in ("fails", "fails once") else "ends"
        return {**found, "program": [str(self.written), f"{choose.uniform(0, 0.3):.3f}", does]}


@dataclass
class User:
    """A member of the team, with a folder of jobs, two projects, and a process that works for them."""

    name: str
    uid: int
    place: Path
    store: str
    process: "subprocess.Popen[str]" = field(init=False)

    @property
    def jobs(self) -> Path:
        return self.place / "jobs"

    def make_projects(self, python: Path, recipe: str, mine: str) -> None:
        for number, name in enumerate(PROJECTS):
            folder = self.place / name
            (folder / "work").mkdir(parents=True)
            (folder / "leaven.toml").write_text(
                f"""[jobs]
folder = {json.dumps(str(self.jobs))}
store = {json.dumps(self.store)}
backoff = 0.05
[environments.local]
cores = {3 + number}
gpus = 0
grace = 20
folder = {json.dumps(str(folder / "work"))}
[environments.slurm]
kind = "slurm"
python = {json.dumps(str(python))}
poll = 0.5
grace = {20 + number}
folder = {json.dumps(str(folder / "work"))}
"""
            )
            (folder / "mine.py").write_text(mine)
            (folder / "small.job").write_bytes(packed(folder, recipe).content)
        (self.place / "notes").mkdir()
        for path in (self.place, *self.place.rglob("*")):
            os.chown(path, self.uid, pwd.getpwuid(self.uid).pw_gid)

    def begin(self) -> None:
        words = [sys.executable, "-m", "tests.unit.jobs.member", *(str(self.place / name) for name in PROJECTS)]
        self.process = subprocess.Popen(
            as_user.command(self.uid, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=self.variables,
            umask=0o077,
        )

    @property
    def variables(self) -> dict[str, str]:
        return {**as_user.variables(self.place), "LEAVEN_CONFIG": os.devnull}

    def tell(self, what: dict[str, Any]) -> None:
        """Let the user do something, and wait until it is done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", f"the process of {self.name} has failed"

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(120) == 0


@pytest.fixture
def slurm() -> Iterator[cluster.Cluster]:
    with cluster.cluster() as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", found.settings["SLURM_CONF"])
        yield found


@pytest.fixture
def database() -> Iterator[postgres.Server]:
    with postgres.server() as found:
        yield found


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that all users can enter."""
    found = Path(tempfile.mkdtemp(prefix="lv-team-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.jobs
@pytest.mark.skipif(
    bool(why := as_user.why_not() or postgres.why_not() or cluster.why_not()), reason=why or "everything is there"
)
def test_no_job_of_a_team_is_lost_or_stuck_or_runs_as_another_whatever_happens(
    database: postgres.Server, slurm: cluster.Cluster, place: Path
) -> None:
    addresses = postgres.new_team(database.url, "team", list(USERS))
    engine = open_engine(addresses["leaven"])
    users = [User(name, pwd.getpwnam(who).pw_uid, place / name, addresses[name]) for name, who in USERS.items()]
    recipe = RECIPE.replace("epochs=12, batch=32", f"epochs={EPOCHS}, batch=128")
    mine = NOTES + MINE.replace("hidden =", "time.sleep(0.05 * self.training)\n        hidden =")
    python = as_user.python_for_all(place)
    for user in users:
        user.make_projects(python, recipe, mine)
    team = Team(users, plan(users, random.Random(0)), JobStore(engine), database)
    ann = users[0]
    with (
        team.at_work(),
        listening(
            ann.place / "red", ann.jobs, as_user.command(ann.uid), **{**ann.variables, "PYTHONUNBUFFERED": "1"}
        ) as api,
    ):
        strangers = Strangers(api, team.names_of(users[1]), seed=0)
        strangers.start()
        team.work(api)
        strangers.end()
        answers, peak = (api("GET", "/health")[0], api("GET", "/jobs")[0]), api.peak()
    print(f"killed {team.killer.killed}, without a reason for {team.longest:.1f} s")
    print(f"strangers got {dict(strangers.answers)}, the server had {peak:,} bytes")
    team.check_jobs()
    assert strangers.wrong == []
    assert {400, 401, 403, 404, 413, 421} <= strangers.answers.keys()
    assert answers == (200, 200)
    assert peak < MOST_BYTES
    (place / "small.leaven").write_text(recipe)
    (place / "mine.py").write_text(mine)
    reference = trained_without_interruption(place)
    for job, expected in team.found():
        if expected.kind == "training":
            assert weights(Path(job.run)) == reference
    team.check_nothing_is_left(slurm)
    engine.dispose()


def plan(users: list[User], choose: random.Random) -> list[Expected]:
    """The jobs: one of twenty is a training, a third runs on Slurm."""
    kinds = {"ends": 76, "fails": 6, "fails once": 7, "cancelled": 5, "after a failure": 6}
    found: list[Expected] = []
    for number in range(JOBS):
        kind = "training" if number % 20 == 7 else choose.choices(list(kinds), list(kinds.values()))[0]
        before = [one.name for one in found[: number // AT_ONCE * AT_ONCE] if one.kind == "fails"]
        if kind == "after a failure" and not before:
            kind = "ends"
        user, project = choose.choice(users), choose.choice(PROJECTS)
        environment = choose.choices(["local", "slurm"], [2, 1])[0]
        after = [choose.choice(before)] if kind == "after a failure" else []
        at = choose.randrange(1, EPOCHS) if kind == "training" else 0
        found.append(Expected(f"job-{number}", user, project, environment, kind, after, at))
    return found


class Team:
    """The users at work; a thread kills what belongs to them, and the database."""

    def __init__(self, users: list[User], jobs: list[Expected], store: JobStore, database: postgres.Server) -> None:
        self.users, self.jobs, self.store, self.database = users, jobs, store, database
        self.token = str(store.fact("store"))
        self.ended = 0
        self.submitted: list[Expected] = []
        self.longest = 0.0  # seconds for which a job has waited without a reason
        self._choose = random.Random(1)
        self._unexplained: dict[tuple[int, State, int], float] = {}
        self._is_over = threading.Event()
        self._failed: list[BaseException] = []
        self.killer = Killer(
            random.Random(2),
            {
                "coordinator": (10, lambda: self._all(lambda user: coordinators(user.jobs))),
                "supervisor": (8, lambda: self._all(lambda user: supervisors(user.jobs / "attempts"))),
                "agent": (8, lambda: self._all(lambda user: agents(user.jobs / "attempts"))),
                "program": (6, lambda: marked_processes(self.token)),
                "connection": (40, database.processes),
                "database": (40, lambda: [database.process.pid] if database.processes() else []),
            },
        )

    def _all(self, find: Callable[[User], list[int]]) -> list[int]:
        return [pid for user in self.users for pid in find(user)]

    def names_of(self, user: User) -> Callable[[], list[str]]:
        return lambda: [one.name for one in list(self.submitted) if one.user is user]

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Let everybody work; nothing of theirs is left in the end."""
        try:
            for user in self.users:
                user.begin()
            killing = self._beside(self._kill)
            yield
            self._is_over.set()
            killing.join(120)
            for user in self.users:
                user.end()
        finally:
            self._is_over.set()
            left = [user.process.pid for user in self.users if user.process.poll() is None]
            for find in (coordinators, supervisors, agents):
                left += self._all(lambda user, find=find: find(user.jobs))  # type: ignore[misc]
            for pid in left + marked_processes(self.token):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _beside(self, act: Callable[[], None]) -> threading.Thread:
        """Do something in a thread; if it fails, so does the test."""

        def acting() -> None:
            try:
                act()
            except BaseException as problem:
                self._failed.append(problem)

        found = threading.Thread(target=acting, daemon=True)
        found.start()
        return found

    def _kill(self) -> None:
        choose = random.Random(3)
        while not self._is_over.wait(choose.uniform(0.01, 0.1)):
            if self.ended < 0.9 * len(self.jobs):  # of the last ones, each would be killed whenever it starts
                self.killer.kill(self.ended)
            if not self.database.processes():
                self._is_over.wait(choose.uniform(0.0, 2.0))
                self.database.start()

    def work(self, api: Api) -> None:
        """Submit and cancel, and look until every job has ended."""
        self._beside(lambda: self._ask(api))
        last_progress = time.monotonic()
        while self.ended < len(self.jobs):
            if self._failed:
                raise self._failed[0]
            before = self.ended
            self._look()
            last_progress = time.monotonic() if self.ended > before else last_progress
            assert time.monotonic() < last_progress + LONGEST_BACKOFF + 180, self.store.counts()
            time.sleep(0.3)

    def _ask(self, api: Api) -> None:
        """Submit jobs, half of them at first, and cancel some."""
        to_cancel: list[Expected] = []
        while (len(self.submitted) < len(self.jobs) or to_cancel) and not self._is_over.wait(0.1):
            if len(self.submitted) < min(len(self.jobs), self.ended + len(self.jobs) / 2):
                chunk = self.jobs[len(self.submitted) :][:AT_ONCE]
                self._submit(chunk, api)
                self.submitted += chunk
                to_cancel += [one for one in chunk if one.kind == "cancelled"]
            if to_cancel and self._choose.random() < 0.3:
                self._cancel(to_cancel.pop(0), api)

    def _submit(self, chunk: list[Expected], api: Api) -> None:
        """The first user's jobs of one project come by HTTP, one by one; those of a group come together."""
        groups: dict[tuple[str, str], list[Expected]] = {}
        for one in chunk:
            groups.setdefault((one.user.name, one.project), []).append(one)
        for (_, project), group in groups.items():
            orders = [one.order(self._choose) for one in group]
            if (group[0].user, project) != (self.users[0], "red"):
                group[0].user.tell({"project": project, "orders": orders})
                continue
            for order in orders:
                post(api, order)

    def _cancel(self, one: Expected, api: Api) -> None:
        if one.user is not self.users[0]:
            one.user.tell({"cancel": one.name})
        else:
            wait_until(lambda: api("POST", f"/jobs/{one.name}/cancel")[0] in (200, 400), "the server to cancel a job")

    def _look(self) -> None:
        """Look at all jobs, as long as the database is there."""
        try:
            self.ended = sum(count for state, count in self.store.counts().items() if state in ENDED)
            found = self.store.jobs(states=(State.QUEUED, State.STARTING, State.RUNNING))
        except StoreError:
            return
        now = time.monotonic()
        waiting = [job for job in found if job.state is not State.RUNNING]
        silent = {(job.id, job.state, job.attempts) for job in waiting if job.waits in ("", NOT_SEEN)}
        self._unexplained = {key: self._unexplained.get(key, now) for key in silent}
        self.longest = max([self.longest, *(now - since for since in self._unexplained.values())])
        assert self.longest < WITHOUT_REASON, max(self._unexplained, key=lambda key: now - self._unexplained[key])
        expected = {one.name: one for one in self.submitted if one.kill_at}
        for job in found:
            if job.name in expected and job.state is State.RUNNING:
                self._kill_training(job, expected[job.name])

    def _kill_training(self, job: Job, one: Expected) -> None:
        if epochs_in(Path(job.run)) < one.kill_at:
            return
        attempts, mine = one.user.jobs / "attempts", f"{self.token}-{job.id}-"
        found = marked_processes(mine)
        if self._choose.random() < 0.5:
            found = supervisors_of(attempts, mine) or found
        if found:
            one.kill_at = 0
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)

    def found(self) -> list[tuple[Job, Expected]]:
        by_name = {job.name: job for job in self.store.jobs()}
        return [(by_name[one.name], one) for one in self.jobs]

    def check_jobs(self) -> None:
        """Every job has ended as it should, once, as the user who submitted it and with the settings of its project."""
        assert {job.name for job in self.store.jobs()} == {one.name for one in self.jobs}
        resumed = 0
        for job, one in self.found():
            assert not one.written.with_suffix(".twice").exists(), f"{one} ran twice at the same time"
            assert (job.owner, job.environment) == (one.user.name, one.environment)
            noted = one.written.with_suffix(".begun")
            begun = [line.split(maxsplit=2) for line in noted.read_text().splitlines()] if noted.exists() else []
            folder = str(one.user.place / one.project / "work")
            assert {(uid, where) for _, uid, where in begun} <= {(str(one.user.uid), folder)}
            files = [Path(job.run), *Path(job.run).rglob("*")]
            assert {file.stat().st_uid for file in files} == {one.user.uid}
            if one.kind == "training":
                assert job.state is State.SUCCEEDED, job
                assert begun
                resumed += len(begun) > 1
                continue
            is_ended = one.kind in ("cancelled", "after a failure")
            check_ending(self.store, job, one.kind, one.written, may_be_cancelled=is_ended)
            assert one.kind != "after a failure" or (job.state is State.CANCELLED and not begun)
        assert resumed >= len([one for one in self.jobs if one.kind == "training"]) / 2
        assert min(self.killer.killed.values()) >= 1, self.killer.killed

    def check_nothing_is_left(self, slurm: cluster.Cluster) -> None:
        wait_until(lambda: not marked_processes(self.token), "programs to end")
        for find in (supervisors, agents):
            wait_until(lambda find=find: not self._all(lambda user: find(user.jobs / "attempts")), "supervisors to end")  # type: ignore[misc]
        wait_until(lambda: not self._all(lambda user: coordinators(user.jobs)), "coordinators to end")
        slurm.wait(lambda: not slurm.run("squeue", "-h").strip(), "Slurm's queue to be empty")


def post(api: Api, order: dict[str, Any]) -> None:
    """Submit a job by HTTP, again and again while the store does not answer: one of its name can't be there twice."""
    query = {"cpus": 1, "name": order["name"], "environment": order["environment"], "retries": order["retries"]}
    query |= {"after": order["after"], "env": [f"{name}={value}" for name, value in order.get("variables", {}).items()]}
    content = Path(order["package"]).read_bytes() if "package" in order else plain(PROGRAM, *order["program"]).content
    codes: list[int] = []

    def is_there() -> bool:
        kind = "application/octet-stream"
        codes.append(api("POST", f"/jobs?{urllib.parse.urlencode(query, doseq=True)}", content, Content_Type=kind)[0])
        assert codes[-1] in (201, 503) or (codes[-1] == 409 and len(codes) > 1), codes
        return codes[-1] != 503

    wait_until(is_there, "the server to take a job")
