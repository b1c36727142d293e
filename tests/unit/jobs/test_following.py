"""Attempts that an engine has: their statuses, what is done when they are cancelled, or never start."""

from dataclasses import replace
from pathlib import Path

import pytest

from leaven.jobs.environments.environment import Status, Task, Unreachable
from leaven.jobs.environments.following import EngineEnvironment, EngineStatus, NotYet
from leaven.jobs.states import Outcome


class Engine(EngineEnvironment):
    """An engine that says what it is told to."""

    engine, poll_seconds, timeout, after_grace = "Engine", 1000.0, 5.0, 30.0

    def _start(self, task: Task) -> str:
        raise NotYet("only two jobs at a time")

    def _ask_engine(self) -> dict[str, EngineStatus]:
        if isinstance(self.now, Exception):
            raise self.now
        return {"x-1": self.now}

    def _end(self, attempt: str) -> None:
        self.ended.append(attempt)

    now: EngineStatus | Exception = EngineStatus("waiting", reason="no room")
    ended: list[str]


def engine(folder: Path, **settings: float) -> Engine:
    (folder / "x-1").mkdir()
    found = Engine(settings, folder, folder / "wake")
    found.ended = []
    assert found.poll({"x-1": "leaven-x-1"})["x-1"].phase == "starting"
    return found


def test_a_program_that_has_begun_since_the_engine_was_asked_may_save(tmp_path: Path) -> None:
    found = engine(tmp_path)
    found.now = EngineStatus("running")
    found.cancel("x-1", "leaven-x-1", 60.0)
    assert (tmp_path / "x-1" / "stop.json").exists()
    assert found.ended == []
    found.cancel("x-1", "leaven-x-1", -100.0)  # its grace was that of the first time
    assert found.ended == []


def test_one_that_waits_is_ended_at_once(tmp_path: Path) -> None:
    found = engine(tmp_path)
    found.cancel("x-1", "leaven-x-1", 60.0)
    assert found.ended == ["x-1"]


def test_one_that_does_not_save_within_its_grace_is_ended(tmp_path: Path) -> None:
    found = engine(tmp_path)
    found.now = EngineStatus("running")
    found.cancel("x-1", "leaven-x-1", -31.0)
    assert found.ended == ["x-1"]


def status(found: Engine) -> Status:
    found._statuses.forget()
    return polled(found)


def polled(found: Engine) -> Status:
    status = found.poll({"x-1": ""})["x-1"]
    assert status.native == "leaven-x-1"  # known again, also where a crash came after it was submitted
    return replace(status, native="")


def test_one_whose_program_has_not_begun_is_starting(tmp_path: Path) -> None:
    found = engine(tmp_path)
    assert status(found) == Status("starting", reason="no room")
    found.now = EngineStatus("running")
    assert status(found) == Status("starting", reason="Engine has started it; its program has not begun")
    (tmp_path / "x-1" / "begun.json").touch()
    assert status(found) == Status("running")


def test_one_that_does_not_start_in_time_is_given_up_with_the_reason(tmp_path: Path) -> None:
    found = engine(tmp_path, start_within=5.0)
    assert status(found).phase == "starting"
    found._waits_since["x-1"] -= 301.0
    given_up = Status("ended", Outcome.TIMED_OUT, reason="it could not start within 5 minutes: no room")
    assert status(found) == given_up
    assert found.ended == ["x-1"]
    assert (tmp_path / "x-1" / "stop.json").exists()  # if the engine starts it nevertheless, it does nothing


def test_one_that_begins_while_it_is_given_up_may_save(tmp_path: Path) -> None:
    found = engine(tmp_path, start_within=5.0)
    found._waits_since["x-1"] -= 301.0
    found.now = EngineStatus("running")
    (tmp_path / "x-1" / "begun.json").touch()
    assert polled(found) == Status("running")  # it was not asked anew until now
    assert found.ended == []


def test_an_answer_of_another_shape_is_none(tmp_path: Path) -> None:
    found = engine(tmp_path)
    found.now = KeyError("job_id")
    with pytest.raises(Unreachable, match="the answer of Engine can't be understood: KeyError: 'job_id'"):
        status(found)
