"""Both kinds of stores: all or nothing, one that leads, versions, names."""

import gzip
import itertools
import json
import os
import resource
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, update
from tests.unit.jobs import postgres
from tests.unit.jobs.plain_jobs import Queue, order, settings_in, wait_until

from leaven.jobs import coordinator, requests
from leaven.jobs.resources import Resources
from leaven.jobs.settings import Settings
from leaven.jobs.states import State
from leaven.jobs.store.connection import AnotherLeads, has_leader, is_sqlite, open_engine, opened
from leaven.jobs.store.failures import NameTaken, StoreError
from leaven.jobs.store.for_loop import LoopStore
from leaven.jobs.store.schema import VERSION, facts


def test_a_store_of_a_newer_version_is_refused(settings: Settings) -> None:
    requests.open_store(settings).close()
    engine = open_engine(settings.store)
    with engine.begin() as connection:
        connection.execute(update(facts).where(facts.c.name == "version").values(value=str(VERSION + 1)))
    engine.dispose()
    with pytest.raises(StoreError, match=f"newer version of Leaven .tables {VERSION + 1}, this one knows {VERSION}."):
        requests.open_store(settings)


def test_a_drive_that_is_full_is_reported_and_a_later_submit_works(settings: Settings) -> None:
    queue = Queue(settings)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(StoreError, match=f"can't write {settings.folder}") as problem:
            queue.submit(order(""))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert problem.value.help == "free some room, and try again: nothing is lost"
    assert queue.store.jobs() == []
    assert queue.finish(*queue.submit(order("")))[0].state is State.SUCCEEDED
    queue.close()


def test_one_leads_at_a_time(tmp_path: Path, server: str) -> None:
    url = postgres.new_schema(server, "leads")
    assert not has_leader(url, tmp_path)
    with opened(url, leads=True):
        assert has_leader(url, tmp_path)
        with pytest.raises(AnotherLeads), opened(url, leads=True):
            pass
        assert has_leader(url, tmp_path)
    assert not has_leader(url, tmp_path)


def test_a_name_that_is_taken_is_refused_and_nothing_is_added(queue: Queue) -> None:
    queue.submit(order("", name="twin"))
    with pytest.raises(NameTaken, match="a job named `twin` exists already"):
        queue.submit(order(""), order("", name="twin"))
    assert [job.name for job in queue.store.jobs()] == ["twin"]
    assert len(list(queue.settings.runs.iterdir())) == 1


def test_jobs_without_a_name_are_named_by_their_number(queue: Queue) -> None:
    (id,) = queue.submit(order(""))
    assert queue.store.job(f"plain-{id}").id == id
    with pytest.raises(StoreError, match="there is no job `99`"):
        queue.store.job("99")


@pytest.mark.parametrize("name", ["17", "a b", "../x", "-x", ""])
def test_names_that_could_mean_something_else_are_refused(queue: Queue, name: str) -> None:
    with pytest.raises(requests.RequestError, match="can't be the name of a job"):
        queue.submit(order("", name=name))


def test_a_cycle_of_jobs_is_refused(queue: Queue) -> None:
    orders = [order("", name="a", after=["c"]), order("", name="b", after=["a"]), order("", name="c", after=["b"])]
    with pytest.raises(requests.RequestError, match="these jobs wait for each other: ") as problem:
        queue.submit(*orders)
    circle = problem.value.headline.rpartition(": ")[2].split(" → ")
    assert circle[0] == circle[-1]
    waits = set(itertools.pairwise(circle))
    assert waits in ({("a", "c"), ("c", "b"), ("b", "a")}, {("c", "a"), ("b", "c"), ("a", "b")})
    assert queue.store.jobs() == []


def test_a_job_after_one_that_is_not_there_is_refused(queue: Queue) -> None:
    with pytest.raises(StoreError, match="there is no job `nobody`"):
        queue.submit(order("", after=["nobody"]))
    assert list(queue.settings.runs.glob("*")) == []


@pytest.mark.parametrize(
    ("resources", "report"),
    [
        (Resources(gpus=8), "8 GPUs are needed, and it has no GPUs"),
        (Resources(cpus=64), "64 cores are needed, and it has 4 cores"),
        (Resources(memory=10**15), "1,000 TB of memory are needed, and it has "),
        (Resources(nodes=2), "it is a single machine"),
    ],
)
def test_what_an_environment_never_has_is_refused_with_what_it_has(
    tmp_path: Path, resources: Resources, report: str
) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    with pytest.raises(requests.RequestError) as problem:
        queue.submit(order("", resources=resources))
    assert report.replace("1,000 TB", "1.0 PB") in problem.value.headline
    assert queue.store.jobs() == []
    queue.close()


def test_an_environment_that_is_not_there_is_refused(tmp_path: Path) -> None:
    queue = Queue(settings_in(tmp_path / "jobs"))
    with pytest.raises(requests.RequestError, match="there is no environment `cluster`") as problem:
        queue.submit(order("", environment="cluster"))
    assert problem.value.help.startswith("there are: local")
    queue.close()


def test_cleaning_forgets_ended_jobs_and_their_logs(queue: Queue) -> None:
    first, second = queue.submit(order("print(1)", name="a"), order("", name="b"))
    with pytest.raises(requests.RequestError, match="a has not ended: it is queued"):
        requests.clean(queue.store, queue.settings, [queue.job(first)])
    queue.finish(first, second)
    run = Path(queue.job(first).run)
    assert requests.clean(queue.store, queue.settings, [queue.job(first)]) == 1
    assert [job.name for job in queue.store.jobs()] == ["b"]
    assert len(list(queue.settings.attempts.iterdir())) == 1
    assert len(list(queue.settings.packages.iterdir())) == 1
    assert run.is_dir()
    assert queue.store.counts() == {State.SUCCEEDED: 1}


def test_a_store_that_is_no_store_is_reported(tmp_path: Path) -> None:
    for url, report in (
        ("nonsense", "`nonsense` is not the address of a store"),
        ("oracle9://x", "`oracle9://x` is not the address of a store"),
        ("postgresql://ann:secret@localhost:1/none", "can't open the store postgresql://ann:[*]{3}@localhost:1/none"),
    ):
        with pytest.raises(StoreError, match=report) as problem:
            open_engine(url)
        assert "secret" not in problem.value.headline
    (tmp_path / "jobs.sqlite").write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        open_engine(f"sqlite:///{tmp_path}/jobs.sqlite")


FIRST_TABLES = """
CREATE TABLE facts (name VARCHAR(64) PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE revisions (number BIGINT NOT NULL);
CREATE TABLE environments (name VARCHAR(100) PRIMARY KEY, kind VARCHAR(32) NOT NULL, settings TEXT NOT NULL,
    unreachable_since FLOAT, problem TEXT NOT NULL);
CREATE TABLE jobs (id {id} PRIMARY KEY, name VARCHAR(200) NOT NULL UNIQUE, owner VARCHAR(100) NOT NULL,
    batch VARCHAR(64) NOT NULL, package VARCHAR(64) NOT NULL,
    environment VARCHAR(100) NOT NULL REFERENCES environments (name), entry VARCHAR(32) NOT NULL,
    arguments TEXT NOT NULL,
    run TEXT NOT NULL, project TEXT NOT NULL, epochs INTEGER, monitor VARCHAR(200) NOT NULL, cpus INTEGER NOT NULL,
    memory BIGINT NOT NULL, gpus INTEGER NOT NULL, processes INTEGER NOT NULL, nodes INTEGER NOT NULL, minutes FLOAT,
    retries INTEGER NOT NULL, submitted FLOAT NOT NULL, priority INTEGER NOT NULL, wanted VARCHAR(16) NOT NULL,
    wanted_round INTEGER NOT NULL, state VARCHAR(16) NOT NULL, round INTEGER NOT NULL, attempt VARCHAR(64),
    attempts INTEGER NOT NULL, failures INTEGER NOT NULL, delay FLOAT NOT NULL, reason TEXT NOT NULL,
    progress TEXT NOT NULL, started FLOAT, ended FLOAT);
CREATE TABLE dependencies (job INTEGER REFERENCES jobs (id), after INTEGER REFERENCES jobs (id),
    needs_success INTEGER NOT NULL, PRIMARY KEY (job, after));
CREATE TABLE attempts (id VARCHAR(64) PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs (id), number INTEGER NOT NULL,
    environment VARCHAR(100) NOT NULL, native VARCHAR(200) NOT NULL, devices VARCHAR(200) NOT NULL,
    submitted FLOAT NOT NULL, started FLOAT, ended FLOAT, outcome VARCHAR(16), exit_code INTEGER, reason TEXT NOT NULL);
CREATE INDEX jobs_by_state ON jobs (state);
CREATE INDEX ix_attempts_job ON attempts (job);
INSERT INTO facts VALUES ('version', '1');
INSERT INTO facts VALUES ('store', 'abc123');
INSERT INTO revisions VALUES (7);
INSERT INTO environments VALUES ('local', 'local', '{settings}', NULL, '');
INSERT INTO jobs VALUES (3, 'old', 'ann', '', '{package}', 'local', 'plain', '[]', '{run}', '', NULL, '',
    1, 0, 0, 1, 1, NULL, 0, 1e9, 0, 'run', 1, 'succeeded', 1, NULL, 1, 0, 0, '', '', 1e9, 1e9);
INSERT INTO jobs VALUES (4, 'next', 'ann', '', '{package}', 'local', 'plain', '[]', '{run}2', '', NULL, '',
    1, 0, 0, 1, 1, NULL, 0, 1e9, 0, 'run', 1, 'queued', 1, NULL, 0, 0, 0, '', '', NULL, NULL);
INSERT INTO dependencies VALUES (4, 3, 1);
INSERT INTO attempts VALUES ('abc123-3-1-00ff', 3, 1, 'local', 'abc123-3-1-00ff', '', 1e9, 1e9, 1e9, 'succeeded', 0, '')
"""


def test_a_store_of_the_first_version_is_converted_and_its_jobs_run(settings: Settings, tmp_path: Path) -> None:
    settings.folder.mkdir(parents=True)
    package = order("print('ran')").package
    package.save(settings.packages)
    values = {"package": package.hash, "run": tmp_path / "run", "settings": json.dumps(settings.environments["local"])}
    id = "INTEGER" if is_sqlite(settings.store) else "SERIAL"
    url = settings.store.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in FIRST_TABLES.format(id=id, **values).split(";\n"):
            connection.exec_driver_sql(statement)
    engine.dispose()
    queue = Queue(settings)
    assert [job.name for job in queue.store.jobs()] == ["old", "next"]
    assert queue.store.attempts(3)[0].id == "abc123-3-1-00ff"
    assert queue.store.after(4) == [3]
    (new,) = queue.submit(order("", name="new"))
    assert new == 5
    assert [job.state for job in queue.finish(4, new)] == [State.SUCCEEDED] * 2
    assert queue.log(4) == "ran\n"
    assert queue.store.fact("version") == str(VERSION)
    queue.close()


@pytest.mark.parametrize("name", ["caf\udce9", "a\x00b", "a\x1b[2J"])
def test_any_text_can_be_stored_and_is_found_again(queue: Queue, name: str) -> None:
    queue.store.set_fact(name, name * 10_000)
    assert len(queue.store.fact(name) or "") < 30_000
    with pytest.raises(StoreError, match="there is no job"):
        queue.store.job(name)


def test_a_copy_of_a_store_is_restored_as_it_was(queue: Queue, tmp_path: Path) -> None:
    first, second = queue.submit(order("print('a')", name="a"), order("", name="b", after=["a"]))
    queue.finish(first, second)
    before = [job.to_json() for job in queue.store.jobs()], queue.store.events(first), queue.store.attempts(second)
    file = tmp_path / "copy.gz"
    assert requests.backup(queue.store, file) == 2
    assert file.stat().st_mode & 0o777 == 0o600
    (third,) = queue.submit(order("", name="c"))
    with pytest.raises(requests.RequestError, match="the store has 3 jobs, which would be lost"):
        requests.restore(queue.store, queue.settings, file, replaces=False)
    assert requests.restore(queue.store, queue.settings, file, replaces=True) == 2
    assert (
        [job.to_json() for job in queue.store.jobs()],
        queue.store.events(first),
        queue.store.attempts(second),
    ) == before
    assert queue.submit(order("", name="d")) == [third]
    queue.restart()
    assert queue.finish(third)[0].state is State.SUCCEEDED


@pytest.mark.parametrize("content", [b"", b"nonsense", gzip.compress(b"[]", mtime=0), gzip.compress(b"{}", mtime=0)])
def test_a_file_that_is_no_copy_changes_nothing(queue: Queue, tmp_path: Path, content: bytes) -> None:
    queue.submit(order("", name="a"))
    (tmp_path / "copy.gz").write_bytes(content)
    with pytest.raises(StoreError, match=r"copy\.gz"):
        requests.restore(queue.store, queue.settings, tmp_path / "copy.gz", replaces=True)
    assert [job.name for job in queue.store.jobs()] == ["a"]


def test_a_copy_with_a_damaged_row_changes_nothing(queue: Queue, tmp_path: Path) -> None:
    queue.submit(order("", name="a"))
    file = tmp_path / "copy.gz"
    requests.backup(queue.store, file)
    found = json.loads(gzip.decompress(file.read_bytes()))
    for change in ({"state": ["queued"]}, {"state": "nowhere"}, {"settings": "{"}, {"name": None}):
        damaged = {**found, "tables": {**found["tables"], "jobs": [{**found["tables"]["jobs"][0], **change}]}}
        file.write_bytes(gzip.compress(json.dumps(damaged).encode()))
        with pytest.raises(StoreError):
            requests.restore(queue.store, queue.settings, file, replaces=True)
        assert [job.name for job in queue.store.jobs()] == ["a"]


def test_jobs_that_ended_long_ago_are_forgotten(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = queue.submit(order("", name="a"), order("", name="b"))
    queue.finish(first, second)
    (waits,) = queue.submit(order("", name="c", after=["b"]))
    assert requests.clean_all(queue.store, queue.settings, 60.0) == 0
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 7200)
    assert requests.clean_all(queue.store, queue.settings, 60.0) == 1
    assert [job.id for job in queue.store.jobs()] == [second, waits]


def test_a_coordinator_that_was_started_forgets_what_settings_say(settings: Settings) -> None:
    queue = Queue(settings)
    (id,) = queue.submit(order("", name="a"))
    queue.finish(id)
    coordinator.start(replace(settings, keep=0.0))
    wait_until(lambda: not queue.store.jobs(), "the job to be forgotten")
    wait_until(lambda: not [*settings.packages.iterdir(), *settings.attempts.iterdir()], "its files to be removed")
    coordinator.stop(settings, queue.store)
    queue.close()


def test_only_the_newest_events_of_a_job_are_kept(queue: Queue) -> None:
    (id,) = queue.submit(order("", name="a"))
    (other,) = queue.submit(order("", name="b"))
    for priority in range(20):
        queue.store.set_priority([id], priority)
    LoopStore(queue.store.engine, queue.store.agent_of(queue.settings.host, queue.settings.folder)).forget_events(5)
    assert [event.detail for event in queue.store.events(id)] == ["15", "16", "17", "18", "19"]
    assert [event.what for event in queue.store.events(other)] == ["submit"]


def test_a_damaged_store_has_a_help(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "jobs")
    store = requests.open_store(settings)
    requests.submit(store, settings, [order("", name=f"job{number}") for number in range(200)])
    store.close()
    file = settings.folder / "jobs.sqlite"
    content = bytearray(file.read_bytes())
    content[4096 * 2 :] = os.urandom(len(content) - 4096 * 2)
    file.write_bytes(content)
    with pytest.raises(StoreError, match="malformed") as problem:
        requests.open_store(settings).jobs()
    assert "restore a copy" in problem.value.help
