"""One cache directory for the whole run, so that the installed libraries are read once and never into the user's cache.

`LEAVEN_TEST_CACHE` names a directory that outlives the run: with it, the next one starts at once.
"""

import os
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
