"""`leaven format -` in a pipe does what it does to a file."""

from click.testing import CliRunner

from leaven.cli.main import leaven


def test_check_says_whether_standard_input_would_change() -> None:
    untidy = CliRunner().invoke(leaven, ["format", "--check", "-"], input="model   x\n")
    tidy = CliRunner().invoke(leaven, ["format", "--check", "-"], input="model x\n")
    assert (untidy.exit_code, tidy.exit_code) == (1, 0)
    assert "would change" in untidy.output


def test_diff_shows_what_would_change_in_standard_input() -> None:
    assert "+model x" in CliRunner().invoke(leaven, ["format", "--diff", "-"], input="model   x\n").output
