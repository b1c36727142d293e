"""The stores that tests of jobs run against: SQLite, and a PostgreSQL server of their own."""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.jobs import postgres
from tests.unit.jobs.plain_jobs import Queue, coordinators, settings_in, wait_until

from leaven.jobs import coordinator, requests
from leaven.jobs.settings import Settings

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    if reason := postgres.why_not():
        pytest.skip(reason)
    with postgres.server() as found:
        yield found.url


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Where jobs are kept, in each kind of store."""
    if request.param == "sqlite":
        return settings_in(tmp_path / "jobs")
    url = postgres.new_schema(request.getfixturevalue("server"), f"jobs{next(_numbers)}")
    return settings_in(tmp_path / "jobs", url)


@pytest.fixture
def queue(settings: Settings) -> Iterator[Queue]:
    """A queue whose loop is turned by the test."""
    found = Queue(settings)
    yield found
    found.close()


@pytest.fixture
def project(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """A folder with a `leaven.toml`, for tests of commands; a coordinator that they start is stopped."""
    lines = [
        f"[jobs]\nfolder = {json.dumps(str(settings.folder))}\nstore = {json.dumps(settings.store)}\nbackoff = 0.05"
    ]
    lines += ["[environments.local]\ncores = 4\ngpus = 0\ngrace = 5.0"]
    (tmp_path / "leaven.toml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEAVEN_JOBS", raising=False)
    monkeypatch.setenv("LEAVEN_CONFIG", os.devnull)
    yield settings
    store = requests.open_store(settings)
    coordinator.stop(settings, store)
    store.close()
    wait_until(lambda: not coordinators(settings.folder), "the coordinator to end")
