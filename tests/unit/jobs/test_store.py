"""Both kinds of stores: all or nothing, one that leads, versions, names."""

import itertools
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.unit.jobs.plain_jobs import Queue, order, settings_in

from leaven.jobs import requests
from leaven.jobs.resources import Resources
from leaven.jobs.settings import Settings
from leaven.jobs.states import State
from leaven.jobs.store.connection import AnotherLeads, StoreError, has_leader, leading, open_engine
from leaven.jobs.store.schema import VERSION, facts


def test_a_store_of_a_newer_version_is_refused(settings: Settings) -> None:
    requests.open_store(settings).close()
    engine = open_engine(settings.store)
    with engine.begin() as connection:
        connection.execute(update(facts).where(facts.c.name == "version").values(value=str(VERSION + 1)))
    engine.dispose()
    with pytest.raises(StoreError, match=f"newer version of Leaven .tables {VERSION + 1}, this one knows {VERSION}."):
        requests.open_store(settings)


def test_one_leads_at_a_time(settings: Settings) -> None:
    requests.open_store(settings).close()
    assert not has_leader(settings.store, settings.folder)
    with leading(settings.store, settings.folder):
        assert has_leader(settings.store, settings.folder)
        with pytest.raises(AnotherLeads), leading(settings.store, settings.folder):
            pass
        assert has_leader(settings.store, settings.folder)
    assert not has_leader(settings.store, settings.folder)


def test_a_name_that_is_taken_is_refused_and_nothing_is_added(queue: Queue) -> None:
    queue.submit(order("", name="twin"))
    with pytest.raises(StoreError, match="a job named `twin` exists already"):
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
