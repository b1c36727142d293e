"""Whether an environment can be used: the tiny job, whatever happens to it."""

import sys
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import settings_in

from leaven.jobs.checking import checks
from leaven.jobs.environments.environment import Refused, Task
from leaven.jobs.environments.kinds import KINDS
from leaven.jobs.environments.local import Local
from leaven.jobs.settings import Settings


class Refuses(Local):
    """An environment that refuses everything, after it has begun to write."""

    def submit(self, task: Task) -> str:
        task.folder.mkdir(parents=True)
        raise Refused("no partition named `gpu`")


def test_an_engine_may_print_lines_of_its_own(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] || echo module loaded\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    settings = settings_in(tmp_path / "jobs", python=str(python))
    assert [found for found in checks(settings, "local") if not found.is_right] == []
    assert list(settings.attempts.iterdir()) == []


def test_nothing_is_left_of_a_tiny_job_that_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "refuses", Refuses)
    settings: Settings = settings_in(tmp_path / "jobs", kind="refuses")
    (bad,) = [found for found in checks(settings, "local") if not found.is_right]
    assert (bad.what, bad.found) == ("a tiny job", "no partition named `gpu`")
    assert list(settings.attempts.iterdir()) == []
