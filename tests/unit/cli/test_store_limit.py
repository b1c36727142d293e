"""A limit of the store that is not a size is reported before anything is done."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from leaven.cli.main import leaven


def test_a_run_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", "nonsense")
    (tmp_path / "r.leaven").write_text("model conv(4) -> global_pool() -> linear(classes)\ndata digits()\n")
    result = CliRunner().invoke(leaven, ["run", "r.leaven"])
    assert result.exit_code == 2
    assert (
        "LEAVEN_STORE_LIMIT is `nonsense`, which is not a size; for example: LEAVEN_STORE_LIMIT=20GB" in result.output
    )
    assert not (tmp_path / "runs").exists()
