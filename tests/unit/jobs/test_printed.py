"""What jobs have printed, while they run."""

from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in

from leaven.jobs.environments.environment import Unreachable
from leaven.jobs.environments.kinds import KINDS, Kind
from leaven.jobs.environments.local import KEYS, Local
from leaven.jobs.printed import read_logs


class Mute(Local):
    """An environment whose logs can't be read while a file is there."""

    def logs(self, attempt: str, native: str, offset: int) -> bytes:
        if (self._attempts.parent / "down").exists():
            raise Unreachable("connection refused")
        return super().logs(attempt, native, offset)


def test_an_environment_that_does_not_answer_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "mute", Kind(KEYS, Mute))
    settings = settings_in(tmp_path / "jobs", kind="mute")
    queue = Queue(settings)
    (id,) = queue.submit(order("print('ran')"))
    (settings.folder / "down").touch()
    queue.turn(lambda: queue.store.attempts(id))
    following = read_logs(settings, queue.store, queue.job(id), follows=True)
    assert next(following).problem == "local does not answer: connection refused"
    queue.finish(id)
    assert list(following) == []
    (settings.folder / "down").unlink()
    assert [chunk.text for chunk in read_logs(settings, queue.store, queue.job(id))] == [b"ran\n"]
    queue.close()
