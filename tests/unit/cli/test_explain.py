"""`leaven explain` answers to whatever a person copies out of a report or a recipe."""

import pytest
from click.testing import CliRunner

from leaven.cli.main import leaven


@pytest.mark.parametrize("word", ["unused-name", "warning[unused-name]", "error[unused-name]"])
def test_an_id_is_found_as_a_report_shows_it(word: str) -> None:
    assert CliRunner().invoke(leaven, ["explain", word]).output.startswith("# unused-name")


def test_what_a_library_offers_is_explained_by_its_card() -> None:
    result = CliRunner().invoke(leaven, ["explain", "adamw"])
    assert result.exit_code == 0
    assert "weight_decay" in result.output
