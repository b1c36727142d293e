"""What jobs have printed, while they run."""

import shutil
from pathlib import Path

import pytest
from tests.unit.jobs.plain_jobs import Queue, order, settings_in

from leaven.jobs import requests
from leaven.jobs.environments.environment import PIECE, Position, Unreachable
from leaven.jobs.environments.kinds import KINDS
from leaven.jobs.environments.local import Local
from leaven.jobs.printed import read_logs


class Mute(Local):
    """An environment whose logs can't be read while a file is there."""

    def logs(self, attempt: str, native: str, start: Position, most: int) -> tuple[bytes, Position]:
        if (self._attempts.parent / "down").exists():
            raise Unreachable("connection refused")
        return super().logs(attempt, native, start, most)


def test_an_environment_that_does_not_answer_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "mute", Mute)
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


def test_a_long_log_is_read_in_pieces(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "jobs")
    queue = Queue(settings)
    (id,) = queue.submit(order(f"print('x' * {2 * PIECE}, end='')"))
    queue.finish(id)
    found = [chunk.text for chunk in read_logs(settings, queue.store, queue.job(id))]
    assert [len(text) for text in found] == [PIECE, PIECE]
    queue.close()


def test_following_ends_when_the_job_is_forgotten(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "jobs")
    queue = Queue(settings)
    (id,) = queue.submit(order("print('ran')"))
    job = queue.job(id)
    queue.turn(lambda: queue.log(id) == "ran\n")
    following = read_logs(settings, queue.store, job, follows=True)
    assert next(following).text == b"ran\n"
    queue.finish(id)
    requests.clean(queue.store, settings, [queue.job(id)])
    assert list(following) == []
    queue.close()


def test_a_log_that_was_removed_is_followed_from_its_new_start(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "jobs")
    queue = Queue(settings)
    go = tmp_path / "go"
    text = f"""
import os, time
print('before ' * 100)
while not os.path.exists({str(go)!r}):
    time.sleep(0.02)
print('after')
"""
    (id,) = queue.submit(order(text))
    queue.turn(lambda: "before" in queue.log(id))
    following = read_logs(settings, queue.store, queue.job(id), follows=True)
    assert b"before" in next(following).text
    while settings.attempts.exists():  # its supervisor may write into it while it is removed
        shutil.rmtree(settings.attempts, ignore_errors=True)
    go.touch()
    queue.finish(id)
    assert b"".join(chunk.text for chunk in following) == b"after\n"
    queue.close()
