"""The coordinator as a process: one leads, it needs little, and it comes back after whatever happens to it."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.jobs import postgres
from tests.unit.jobs.plain_jobs import coordinators, order, settings_in, supervisors, wait_until

from leaven.jobs import coordinator, requests
from leaven.jobs.settings import Settings
from leaven.jobs.states import State
from leaven.jobs.store import connection
from leaven.jobs.store.connection import _LEADING, _SCHEMA, has_leader, is_sqlite, open_engine
from leaven.jobs.store.failures import StoreError
from leaven.jobs.store.for_users import JobStore

WAITS = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"


@pytest.fixture
def store(settings: Settings) -> Iterator[JobStore]:
    found = requests.open_store(settings)
    yield found
    coordinator.stop(settings, found)
    found.close()
    wait_until(lambda: not coordinators(settings.folder), "coordinators to end")


def leads(settings: Settings) -> int:
    """Start a coordinator, and wait until it leads; its process."""
    coordinator.start(settings, stays=True)
    wait_until(lambda: has_leader(settings.store, settings.folder), "a coordinator to lead")
    wait_until(lambda: coordinators(settings.folder), "its process to be seen")
    (pid,) = coordinators(settings.folder)
    with contextlib.closing(requests.open_store(settings)) as store:
        wait_until(lambda: pid in [one.pid for one in store.agents().values()], "it to say who it is")
    return pid


def ended(store: JobStore, id: int, state: State) -> bool:
    return store.job(str(id)).state is state


def test_a_second_coordinator_steps_back(settings: Settings, store: JobStore) -> None:
    pid = leads(settings)
    assert not coordinator.start(settings)
    words = [sys.executable, "-m", "leaven.jobs.coordinator", str(settings.folder), "[{}, {}]"]
    done = subprocess.run(words, env={**os.environ, "LEAVEN_JOBS_STORE": settings.store}, timeout=60, check=False)
    assert done.returncode == 0
    assert "another coordinator runs these jobs" in settings.log.read_text()
    assert coordinators(settings.folder) == [pid]


def test_jobs_continue_while_there_is_no_coordinator(settings: Settings, store: JobStore, tmp_path: Path) -> None:
    (id,) = requests.submit(store, settings, [order(WAITS, str(tmp_path / "gate"))])
    pid = leads(settings)
    wait_until(lambda: ended(store, id, State.RUNNING))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not has_leader(settings.store, settings.folder))
    (tmp_path / "gate").touch()
    wait_until(lambda: not supervisors(settings.attempts))
    assert ended(store, id, State.RUNNING)  # nobody has looked yet
    leads(settings)
    wait_until(lambda: ended(store, id, State.SUCCEEDED))
    assert store.job(str(id)).attempts == 1


def test_it_ends_when_there_is_nothing_to_do_and_starts_with_the_next_job(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "jobs")
    store = requests.open_store(settings)
    for _ in range(2):
        (id,) = requests.submit(store, settings, [order("")])
        assert coordinator.start(settings, idle_seconds=0.0)
        wait_until(lambda id=id: ended(store, id, State.SUCCEEDED))  # type: ignore[misc]
        wait_until(lambda: not coordinators(settings.folder))
    store.close()


def test_stopping_it_leaves_jobs_running(settings: Settings, store: JobStore, tmp_path: Path) -> None:
    (id,) = requests.submit(store, settings, [order(WAITS, str(tmp_path / "gate"))])
    leads(settings)
    wait_until(lambda: ended(store, id, State.RUNNING))
    assert coordinator.stop(settings, store)
    assert not coordinator.stop(settings, store)
    assert len(supervisors(settings.attempts)) == 1
    (tmp_path / "gate").touch()
    leads(settings)
    wait_until(lambda: ended(store, id, State.SUCCEEDED))


def test_nobody_else_can_read_what_is_in_the_folder_of_jobs(settings: Settings, request: pytest.FixtureRequest) -> None:
    before = os.umask(0o022)
    request.addfinalizer(lambda: os.umask(before))
    store: JobStore = request.getfixturevalue("store")
    (id,) = requests.submit(store, settings, [order("")])
    leads(settings)
    wait_until(lambda: ended(store, id, State.SUCCEEDED))
    files = [settings.folder, *settings.folder.rglob("*")]
    assert {settings.log, settings.lock, settings.runs} <= set(files)
    assert [file for file in files if file.stat().st_mode & 0o077] == []


def test_it_needs_little_memory_and_never_loads_torch(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "jobs")
    store = requests.open_store(settings)
    (id,) = requests.submit(store, settings, [order("")])
    pid = leads(settings)
    wait_until(lambda: ended(store, id, State.SUCCEEDED))
    status = Path(f"/proc/{pid}/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    assert peak < 80_000_000
    assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()
    coordinator.stop(settings, store)
    store.close()


def test_a_full_disk_delays_and_loses_nothing(tmp_path: Path) -> None:
    """As far as the coordinator sees, the disk is full when it may not write any more."""
    settings = settings_in(tmp_path / "jobs")
    store = requests.open_store(settings)
    pid = leads(settings)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    (id,) = requests.submit(store, settings, [order("print('ran')")])
    calm = time.monotonic() + 3
    wait_until(lambda: time.monotonic() > calm)  # it tries at least once
    assert ended(store, id, State.QUEUED)
    assert coordinators(settings.folder) == [pid]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    wait_until(lambda: ended(store, id, State.SUCCEEDED))
    assert store.job(str(id)).attempts == 1
    coordinator.stop(settings, store)
    store.close()


def test_one_that_can_not_do_anything_can_still_be_stopped(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "jobs")
    store = requests.open_store(settings)
    pid = leads(settings)
    wait_until(lambda: coordinator.status(settings, store), "it to say who it is")
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    requests.submit(store, settings, [order("")])
    assert coordinator.stop(settings, store)
    wait_until(lambda: not coordinators(settings.folder))
    store.close()


def test_a_lost_connection_is_made_again(settings: Settings, store: JobStore) -> None:
    if is_sqlite(settings.store):
        pytest.skip("a file has no connection")
    import psycopg

    pid = leads(settings)
    with psycopg.connect(settings.store, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    (id,) = requests.submit(store, settings, [order("")])
    wait_until(lambda: ended(store, id, State.SUCCEEDED))
    assert coordinators(settings.folder) == [pid]
    assert has_leader(settings.store, settings.folder)


def test_it_leads_on_when_the_database_notices_late_that_its_connection_is_gone(
    settings: Settings, store: JobStore
) -> None:
    if is_sqlite(settings.store):
        pytest.skip("a file has no connection")
    import psycopg

    pid = leads(settings)
    with psycopg.connect(settings.store, autocommit=True) as connection:

        def holds() -> bool:
            """Hold the lock, as the connection that is gone, before the coordinator has taken it again."""
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            (has_it,) = connection.execute(f"SELECT pg_try_advisory_lock({_LEADING}, {_SCHEMA})").fetchone() or (False,)
            return bool(has_it)

        wait_until(holds, "the lock")
        (id,) = requests.submit(store, settings, [order("")])
        calm = time.monotonic() + 1.0
        wait_until(lambda: time.monotonic() > calm)  # it tries at least once
    wait_until(lambda: ended(store, id, State.SUCCEEDED))
    assert coordinators(settings.folder) == [pid]


def test_it_ends_when_its_folder_is_removed(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "jobs")
    requests.open_store(settings).close()
    leads(settings)
    settings.folder.rename(tmp_path / "removed")
    wait_until(lambda: not coordinators(settings.folder))


def test_one_that_hangs_is_mentioned(settings: Settings, store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert coordinator.problems(settings, store) == ["no coordinator is running: `leaven coordinator start`"]
    pid = leads(settings)
    wait_until(lambda: (coordinator.status(settings, store) or {}).get("pid") == pid, "it to say who it is")
    assert coordinator.problems(settings, store) == []
    os.kill(pid, signal.SIGSTOP)
    try:
        monkeypatch.setattr(coordinator, "SILENT", 0.5)
        wait_until(lambda: coordinator.problems(settings, store), "it to be missed")
        (told,) = coordinator.problems(settings, store)
        assert told.startswith(f"the coordinator (process {pid}) has not been seen for ")
        assert told.endswith(f"end it: kill -9 {pid}")
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_another_leads_when_the_one_that_did_is_gone(server: str, tmp_path: Path) -> None:
    team = postgres.new_team(server, "led", ["ann", "bob"])
    open_engine(team["leaven"]).dispose()
    ann, bob = (settings_in(tmp_path / name, team[name]) for name in ("ann", "bob"))
    stores = [requests.open_store(each) for each in (ann, bob)]
    first, second = leads(ann), 0
    try:
        coordinator.start(bob, stays=True)
        wait_until(lambda: coordinators(bob.folder), "Bob's to start")
        (second,) = coordinators(bob.folder)
        (id,) = requests.submit(stores[1], bob, [order("")])
        wait_until(lambda: ended(stores[1], id, State.SUCCEEDED), "his job to be granted by Ann's")
        assert not (coordinator.status(bob, stores[1]) or {})["leads"]
        os.kill(first, signal.SIGKILL)
        (id,) = requests.submit(stores[1], bob, [order("")])
        wait_until(lambda: ended(stores[1], id, State.SUCCEEDED), "his own to lead")
        assert (coordinator.status(bob, stores[1]) or {})["leads"]
        assert coordinators(bob.folder) == [second]
    finally:
        coordinator.stop(bob, stores[1])
        for store in stores:
            store.close()


def test_a_database_that_hangs_is_reported_in_time(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
    monkeypatch.setitem(connection._PATIENCE, "connect_timeout", 2)
    began = time.monotonic()
    with pytest.raises(StoreError, match="can't open the store"):
        requests.open_store(settings_in(tmp_path / "jobs", f"postgresql://a@127.0.0.1:{listening.getsockname()[1]}/x"))
    assert time.monotonic() - began < 15
    listening.close()
