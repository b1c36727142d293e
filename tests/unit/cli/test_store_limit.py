"""A limit of the store that is not a size is reported before anything is done."""

import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
from click.testing import CliRunner

import leaven as api
from leaven.cli.main import leaven
from leaven.runtime.run.arguments import parse

RECIPE = "model conv(4) -> global_pool() -> linear(classes)\ndata digits()\n"
SAID = "LEAVEN_STORE_LIMIT is `nonsense`, which is not a size; for example: LEAVEN_STORE_LIMIT=20GB"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.leaven").write_text(RECIPE)
    return tmp_path / "r.leaven"


@pytest.mark.parametrize("command", ["check", "plan", "generate", "run", "submit", "look"])
def test_no_command_is_started(recipe: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", "nonsense")
    result = CliRunner().invoke(leaven, [command, "r.leaven"])
    assert result.exit_code == 2
    assert SAID in result.output
    assert [each.name for each in recipe.parent.iterdir()] == ["r.leaven"]


def test_nothing_is_started_from_python(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", "nonsense")
    with pytest.raises(OSError, match=SAID):
        api.run(recipe)
    assert not (recipe.parent / "runs").exists()


def test_a_program_says_so_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["program.py"])
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", "nonsense")
    with pytest.raises(SystemExit):
        parse(ArgumentParser(), output="runs")
    assert SAID in capsys.readouterr().err
