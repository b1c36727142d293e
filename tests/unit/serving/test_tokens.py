"""Where the token of a server comes from."""

from pathlib import Path

import pytest

from leaven.serving.tokens import renew, token_of
from leaven.terminal.problem import Problem


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAVEN_TOKEN", raising=False)


def test_one_that_is_not_given_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "token"
    first = token_of(file, "127.0.0.1").read()
    assert len(first) > 40
    assert token_of(file, "0.0.0.0").read() == first
    assert file.stat().st_mode & 0o777 == 0o600
    renew(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert token_of(file, "127.0.0.1").read() != first
    assert [one.name for one in file.parent.iterdir()] == ["token"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "machine"])
def test_a_short_one_is_refused_where_other_machines_could_guess_it(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAVEN_TOKEN", "hunter2")
    with pytest.raises(Problem, match="short enough to be guessed"):
        token_of(tmp_path / "token", host)
    assert token_of(tmp_path / "token", "127.0.0.1").read() == "hunter2"
    monkeypatch.setenv("LEAVEN_TOKEN", "x7" * 10)
    assert token_of(tmp_path / "token", host).read() == "x7" * 10


@pytest.mark.parametrize("token", ["two words", "schlüssel", "a\x1bb"])
def test_one_that_no_header_can_carry_is_refused(token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAVEN_TOKEN", token)
    with pytest.raises(Problem, match="LEAVEN_TOKEN has characters"):
        token_of(tmp_path / "token", "127.0.0.1")
