"""Several users of one store: whose a job is, who may change it, and as whom it runs."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert, text, update
from tests.unit.jobs import as_user, postgres
from tests.unit.jobs.plain_jobs import Queue, order, settings_in

from leaven.jobs import requests
from leaven.jobs.reconcile import Reconciler
from leaven.jobs.resources import Resources
from leaven.jobs.settings import Settings
from leaven.jobs.states import State
from leaven.jobs.store.connection import open_engine
from leaven.jobs.store.failures import NotAllowed, NotStorable, StoreError, raising_store_errors
from leaven.jobs.store.files import network_kind
from leaven.jobs.store.for_loop import LoopStore
from leaven.jobs.store.schema import attempts, events, facts, jobs

_numbers = itertools.count()


@pytest.fixture
def team(server: str) -> dict[str, str]:
    """The addresses of a store for two users and the administrator, who has made it."""
    found = postgres.new_team(server, f"team{next(_numbers)}", ["ann", "bob"])
    open_engine(found["leaven"]).dispose()
    return found


class User(Queue):
    """One user's queue and loop; `leads` says whether the loop decides for all."""

    def __init__(self, settings: Settings, *, leads: bool) -> None:
        self.leads = leads
        super().__init__(settings)

    def restart(self) -> None:
        agent = self.store.agent_of(self.settings.host, self.settings.folder)
        self.loop = Reconciler(LoopStore(self._engine, agent, leads=self.leads), self.settings)


@pytest.fixture
def users(team: dict[str, str], tmp_path: Path) -> Iterator[tuple[User, User]]:
    """Ann, who leads, and Bob."""
    ann = User(settings_in(tmp_path / "ann", team["ann"]), leads=True)
    bob = User(settings_in(tmp_path / "bob", team["bob"]), leads=False)
    yield ann, bob
    for user in (ann, bob):
        user.close()


def test_a_job_belongs_to_the_role_that_submits_it(users: tuple[User, User], monkeypatch: pytest.MonkeyPatch) -> None:
    _, bob = users
    monkeypatch.setenv("LOGNAME", "ann")
    (id,) = bob.submit(order(""))
    assert bob.job(id).owner == "bob"
    assert bob.job(id).agent.startswith(f"bob@{bob.settings.host}:")
    assert [event.actor for event in bob.store.events(id)] == ["bob"]


def test_others_can_not_change_a_job_and_an_administrator_can(users: tuple[User, User], team: dict[str, str]) -> None:
    ann, bob = users
    (id,) = bob.submit(order("", name="mine"))
    for change in (
        lambda store: requests.cancel(store, [store.job("mine")]),
        lambda store: requests.pause(store, [store.job("mine")]),
        lambda store: store.set_priority([id], 5),
        lambda store: requests.clean(store, ann.settings, [store.job("mine")], by_force=True),
    ):
        with pytest.raises(NotAllowed, match="mine belongs to bob") as refused:
            change(ann.store)
        assert refused.value.help == "its owner or an administrator can do that"
    admin = requests.open_store(replace(ann.settings, store=team["leaven"]))
    requests.cancel(admin, [admin.job("mine")])
    assert [(event.actor, event.what) for event in admin.events(id)][1:] == [("leaven", "cancel")]
    admin.close()


def test_each_user_forgets_all_of_their_own_jobs(users: tuple[User, User]) -> None:
    ann, bob = users
    for user in users:
        requests.cancel(user.store, [user.job(id) for id in user.submit(order(""), order(""))])
        user.loop.tick()
    assert requests.clean_all(ann.store, ann.settings) == 2
    assert {job.owner for job in ann.store.jobs()} == {"bob"}
    assert requests.clean_all(bob.store, bob.settings) == 2


@pytest.mark.parametrize(
    "values",
    [
        {"arguments": '["evil"]'},
        {"settings": "{}"},
        {"run": "/evil"},
        {"agent": "ann@here:0"},
        {"owner": "ann"},
        {"state": "succeeded"},
        {"state": "starting", "variables": '{"PATH": "/evil"}'},
        {"wanted": "stop"},
    ],
)
def test_the_leader_can_not_change_the_programs_of_others(users: tuple[User, User], values: dict[str, str]) -> None:
    ann, bob = users
    (id,) = bob.submit(order(""))
    with pytest.raises(NotAllowed), raising_store_errors(), ann._engine.begin() as connection:
        connection.execute(update(jobs).where(jobs.c.id == id).values(**values))


def test_nobody_can_act_as_another(users: tuple[User, User]) -> None:
    ann, bob = users
    (mine,) = bob.submit(order(""))
    (id,) = ann.submit(order(""))

    def refused(engine: Engine, statement: object) -> bool:
        try:
            with raising_store_errors(), engine.begin() as connection:
                connection.execute(statement)  # type: ignore[call-overload]
        except NotAllowed:
            return True
        return False

    row = {"job": mine, "number": 1, "environment": "local", "devices": "", "submitted": 0.0}
    assert refused(ann._engine, insert(attempts).values(id="../../x", **row))
    assert refused(ann._engine, insert(attempts).values(id="abc-1-1-ff", **row))  # not one that was granted
    assert refused(ann._engine, update(facts).where(facts.c.name == "store").values(value="../.."))
    shadow = text("CREATE TEMP TABLE jobs AS SELECT 'ann' AS owner, id, attempt FROM jobs")
    with ann._engine.begin() as connection:
        connection.execute(shadow)
        connection.execute(insert(events).values(job=id, at=0.0, actor="bob", what="submit"))
    assert refused(ann._engine, events.delete().where(events.c.job == mine))
    assert {event.actor for event in bob.store.events(id)} == {"ann"}


@pytest.mark.parametrize(
    "values",
    [
        {"state": "nowhere"},
        {"settings": "{"},
        {"settings": "[]"},
        {"progress": "NaN"},
        {"cpus": -5},
        {"minutes": float("nan")},
        {"ended": 1e300},
    ],
)
def test_nobody_can_keep_others_from_reading_the_store(users: tuple[User, User], values: dict[str, object]) -> None:
    _, bob = users
    (id,) = bob.submit(order(""))
    with pytest.raises(NotStorable), raising_store_errors(), bob._engine.begin() as connection:
        connection.execute(update(jobs).where(jobs.c.id == id).values(**values))


def test_the_leader_grants_and_each_user_starts_their_own(users: tuple[User, User]) -> None:
    ann, bob = users
    (his,) = bob.submit(order("print('ran')"))
    (hers,) = ann.submit(order("print('ran')"))
    ann.turn(lambda: ann.job(hers).state is State.SUCCEEDED)
    assert ann.job(his).state is State.QUEUED
    assert ann.job(his).waits == "no coordinator of bob is running"
    bob.loop.tick()  # says what it has
    ann.loop.tick()
    assert ann.job(his).state is State.STARTING
    ann.loop.tick()
    assert not list(ann.settings.attempts.glob(f"{ann.store.fact('store')}-{his}-*"))
    bob.turn(lambda: bob.job(his).state is State.SUCCEEDED)
    assert bob.log(his) == "ran\n"
    actors = [event.actor for event in bob.store.events(his)]  # it may end before anyone sees it run
    assert actors[:2] == ["bob", "ann"]
    assert set(actors[2:]) == {"bob"}


def test_users_of_one_machine_share_its_cores(users: tuple[User, User]) -> None:
    ann, bob = users
    waits = "import time; print('begun', flush=True); time.sleep(600)"
    (hers,) = ann.submit(order(waits, resources=Resources(cpus=3)))
    ann.turn(lambda: ann.job(hers).state is State.RUNNING)
    (his,) = bob.submit(order(waits, resources=Resources(cpus=2)))
    bob.loop.tick()
    ann.loop.tick()
    assert (ann.job(his).state, ann.job(his).waits) == (State.QUEUED, "waits until 2 cores, no GPUs are free")
    requests.cancel(ann.store, [ann.job(hers)])
    ann.turn(lambda: ann.job(his).state is State.STARTING)
    requests.cancel(bob.store, [bob.job(his)])
    bob.finish(his)


def test_nothing_is_done_to_the_running_job_of_another_before_that_is_refused(users: tuple[User, User]) -> None:
    ann, bob = users
    (his,) = bob.submit(order("import time; time.sleep(600)"))
    bob.loop.tick()
    ann.turn(lambda: ann.job(his).state is State.STARTING)
    bob.turn(lambda: bob.job(his).state is State.RUNNING)
    with pytest.raises(NotAllowed, match="belongs to bob"):
        requests.clean(ann.store, ann.settings, [ann.job(his)], by_force=True)
    assert not ann.settings.attempts.exists()
    assert requests.clean(bob.store, bob.settings, [bob.job(his)], by_force=True) == 1


def test_a_job_whose_coordinator_is_gone_waits_and_takes_nothing(users: tuple[User, User]) -> None:
    ann, bob = users
    now = 0.0
    ann.loop._clock = lambda: now
    (his,) = bob.submit(order("", resources=Resources(cpus=4)))
    bob.loop.tick()
    (blocked,) = ann.submit(order("", resources=Resources(cpus=4), priority=5))
    ann.finish(blocked)
    now += 61.0
    bob.store.want([his], bob.job(his).wanted)
    if ann.job(his).state is State.QUEUED:
        ann.loop.tick()
        assert ann.job(his).waits == f"the coordinator of bob on {bob.settings.host} is not running"


SUBMIT = """
import sys, time
from pathlib import Path
from leaven.jobs import coordinator, requests
from tests.unit.jobs.plain_jobs import order, settings_in
settings = settings_in(Path(sys.argv[1]), sys.argv[2])
store = requests.open_store(settings)
text = "import os; print(os.getuid(), 'LEAVEN_JOBS_STORE' in os.environ)"
ids = requests.submit(store, settings, [order(text) for _ in range(3)])
coordinator.start(settings)
deadline = time.monotonic() + 60
while any(store.job(str(id)).state.value not in ("succeeded", "failed") for id in ids):
    assert time.monotonic() < deadline, [store.job(str(id)) for id in ids]
    time.sleep(0.05)
for id in ids:
    (attempt,) = store.attempts(id)
    print((settings.attempts / attempt.id / "log").read_text(), end="")
coordinator.stop(settings, store)
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(as_user.why_not()), reason=as_user.why_not())
def test_each_program_runs_as_the_user_who_submitted_it(team: dict[str, str]) -> None:
    places = {"ann": (65534, tempfile.mkdtemp()), "bob": (65533, tempfile.mkdtemp())}
    running = {}
    try:
        for name, (uid, place) in places.items():
            os.chown(place, uid, uid)
            running[name] = subprocess.Popen(
                as_user.command(uid, sys.executable, "-c", SUBMIT, f"{place}/jobs", team[name]),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd="/",
                env=as_user.variables(Path(place)),
                umask=0o077,
            )
        for name, process in running.items():
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert out == f"{places[name][0]} False\n" * 3
        for _, place in places.values():
            assert not [file for file in Path(place).rglob("*") if file.stat().st_mode & 0o077 and not file.is_fifo()]
    finally:
        for process in running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for _, place in places.values():
            shutil.rmtree(place, ignore_errors=True)


class TestFile:
    """A store that is a file belongs to one user."""

    def test_one_that_others_can_write_is_refused(self, tmp_path: Path) -> None:
        settings = settings_in(tmp_path / "jobs")
        requests.open_store(settings).close()
        file = settings.folder / "jobs.sqlite"
        assert (file.stat().st_mode & 0o777, settings.folder.stat().st_mode & 0o777) == (0o600, 0o700)
        for place, mode in ((file, 0o666), (settings.folder, 0o777)):
            before = place.stat().st_mode
            place.chmod(mode)
            with pytest.raises(StoreError, match=r"others can write .*, and so run programs as you"):
                requests.open_store(settings)
            place.chmod(before)
        requests.open_store(settings).close()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")
    def test_one_of_another_user_is_refused(self, tmp_path: Path) -> None:
        settings = settings_in(tmp_path / "jobs")
        requests.open_store(settings).close()
        os.chown(settings.folder / "jobs.sqlite", 65534, 65534)
        with pytest.raises(StoreError, match=r"jobs.sqlite belongs to another user") as problem:
            requests.open_store(settings)
        assert "a team uses PostgreSQL" in problem.value.help

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [("nfs4", "nfs4"), ("cifs", "cifs"), ("fuse.sshfs", "fuse.sshfs"), ("lustre", "lustre"), ("ext4", None)],
    )
    def test_network_drives_are_known(self, kind: str, expected: str | None) -> None:
        lines = f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / /my\\040home rw shared:1 - {kind} server:/home rw\n"
        assert network_kind(Path("/my home/ann/jobs"), lines) == expected
        assert network_kind(Path("/my homework"), lines) is None
