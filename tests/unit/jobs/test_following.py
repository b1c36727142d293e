"""Attempts that an engine has: what is done when they are cancelled."""

from pathlib import Path

from leaven.jobs.environments.following import Followed, Said


class Engine(Followed):
    """An engine that says what it is told to."""

    engine, hold, after_grace = "Engine", 1000.0, 30.0

    def _ask_engine(self) -> dict[str, Said]:
        return {"x-1": self.now}

    def _end(self, attempt: str) -> None:
        self.ended.append(attempt)

    now = Said("waiting")
    ended: list[str]


def engine(folder: Path) -> Engine:
    (folder / "x-1").mkdir()
    found = Engine({}, folder, folder / "wake")
    found.ended = []
    assert found.poll({"x-1": "leaven-x-1"})["x-1"].phase == "starting"
    return found


def test_a_program_that_has_begun_since_the_engine_was_asked_may_save(tmp_path: Path) -> None:
    found = engine(tmp_path)
    found.now = Said("running")
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
    found.now = Said("running")
    found.cancel("x-1", "leaven-x-1", -31.0)
    assert found.ended == ["x-1"]
