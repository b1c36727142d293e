"""Commands that are printed can be pasted."""

import shlex
from pathlib import Path

import pytest

from leaven.terminal.commands import to_finish, to_peek, to_resume, to_use


@pytest.mark.parametrize("name", ["dogs", "my runs", "it's", "a\nb", "🐕", "$(touch x)"])
def test_the_shell_reads_the_folder_that_is_meant(name: str) -> None:
    folder = Path("runs", name)
    assert shlex.split(to_resume(folder)) == ["leaven", "resume", str(folder)]
    assert shlex.split(to_finish(folder)) == ["leaven", "finish", str(folder)]
    assert shlex.split(to_peek(folder))[:3] == ["leaven", "finish", str(folder)]
    command = to_use(folder / "model.bundle", trust_code=False).removeprefix("try it: ")
    assert shlex.split(command) == ["leaven", "predict", str(folder / "model.bundle"), "photo.jpg"]


def test_a_plain_name_has_no_quotes() -> None:
    assert to_resume(Path("runs/dogs/2026-11-15_20-21-03")) == "leaven resume runs/dogs/2026-11-15_20-21-03"
