"""`leaven format -` in a pipe does what it does to a file, and what `--diff` prints is a patch."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from leaven.cli.main import leaven


def test_check_says_whether_standard_input_would_change() -> None:
    untidy = CliRunner().invoke(leaven, ["format", "--check", "-"], input="model   x\n")
    tidy = CliRunner().invoke(leaven, ["format", "--check", "-"], input="model x\n")
    assert (untidy.exit_code, tidy.exit_code) == (1, 0)
    assert "would change" in untidy.output


def test_diff_shows_what_would_change_in_standard_input() -> None:
    assert "+model x" in CliRunner().invoke(leaven, ["format", "--diff", "-"], input="model   x\n").output


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no `patch`")
@pytest.mark.parametrize(
    "before",
    [
        b"model   x\ndata y()",
        b"model   x\r\n\r\ndata y()\r\n",
        b"\xef\xbb\xbfmodel x\n",
        b"# \x0c \xe2\x80\xa8 \xc2\x85\nmodel   x\r# old\rdata y()",
        b"  \n",
    ],
    ids=["no last newline", "windows", "byte order mark", "other line ends", "blank"],
)
def test_a_diff_makes_the_file_what_format_makes_it(
    before: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    formatted, patched = tmp_path / "one.leaven", tmp_path / "two.leaven"
    formatted.write_bytes(before)
    patched.write_bytes(before)
    shown = CliRunner().invoke(leaven, ["format", "--diff", "one.leaven"])
    assert shown.exit_code == 1
    assert formatted.read_bytes() == before
    patch = subprocess.run(["patch", "--binary", "--silent", "two.leaven"], input=shown.stdout_bytes, check=False)
    assert patch.returncode == 0
    CliRunner().invoke(leaven, ["format", "one.leaven"])
    # `patch` leaves no empty file behind
    assert (patched.read_bytes() if patched.exists() else b"") == formatted.read_bytes()


def test_a_recipe_that_is_not_to_be_written_stays(tmp_path: Path) -> None:
    file = tmp_path / "kept.leaven"
    file.write_text("model   x\n")
    file.chmod(0o444)
    result = CliRunner().invoke(leaven, ["format", str(file)])
    assert result.exit_code == 1
    assert "can't write" in result.output
    assert file.read_text() == "model   x\n"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no names of open files here")
def test_what_comes_through_a_pipe_is_printed() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"model   x\n")
    os.close(writer)
    result = CliRunner().invoke(leaven, ["format", f"/dev/fd/{reader}"])
    os.close(reader)
    assert (result.exit_code, result.output) == (0, "model x\n")
