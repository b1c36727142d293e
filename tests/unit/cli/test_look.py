"""`leaven look`: the picture of what a recipe trains on, as a person asks for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from leaven.cli.main import leaven

RECIPE = """
model conv(8) -> global_pool() -> linear(classes)
data  digits() { train random_crop(8, padding=1); split train=64 samples, val=32 samples, test=0 }
train epochs=1, batch=16
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "digits.leaven").write_text(RECIPE)
    return tmp_path


def look(*words: str) -> Result:
    return CliRunner().invoke(leaven, ["look", "sub/digits.leaven", *words], catch_exceptions=False)


def test_the_picture_is_beside_the_recipe_or_where_it_is_asked_for(folder: Path) -> None:
    result = look()
    assert (result.exit_code, result.stdout, result.stderr) == (0, "sub/digits_look.png\n", "")
    assert Image.open("sub/digits_look.png").width > 1000
    assert look("-o", "here.png").stdout == "here.png\n"
    assert Path("here.png").read_bytes() == Path("sub/digits_look.png").read_bytes()


def test_options_of_the_recipe_and_other_epochs_change_the_picture(folder: Path) -> None:
    look("-o", "one.png")
    for words in (["--epoch", "2"], ["--split", "val"], ["--set", "train.seed=1"], ["--set", "train.batch=4"]):
        assert look("-o", "other.png", *words).exit_code == 0
        assert Path("one.png").read_bytes() != Path("other.png").read_bytes(), words


def test_bad_data_is_reported_at_the_line_of_the_recipe(folder: Path) -> None:
    (folder / "sub" / "mine.py").write_text("def broken(image):\n    raise ZeroDivisionError('mine')\n")
    text = RECIPE.replace("random_crop(8, padding=1)", "mine.broken -> to_tensor()")
    (folder / "sub" / "digits.leaven").write_text(f'import "mine.py" as mine\n{text}')
    result = look()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "error: ZeroDivisionError: mine",
        "  --> digits.leaven:4",
        "help: it was raised in sub/mine.py, line 2; LEAVEN_DEBUG=1 shows the traceback",
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-o", "x.gif"], 2, "error: x.gif must end in .png, .pdf, .svg or .jpg"),
        (["-o", "no/x.png"], 74, "error: can't write no/x.png: No such file or directory"),
        (["--split", "test"], 1, "error: the data has no samples for test"),
        (["--epcoh", "2"], 2, "Did you mean `--epoch`?"),
        (["--set", "train.batch=0"], 2, "error[out-of-range]"),
    ],
)
def test_what_can_not_be_drawn_is_said(folder: Path, words: list[str], code: int, said: str) -> None:
    result = look(*words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert not list(folder.rglob("*.png"))


def test_without_matplotlib_it_says_what_to_install(folder: Path) -> None:
    program = "import sys; sys.modules['matplotlib'] = None; from leaven.cli.main import main; main()"
    words = [sys.executable, "-c", program, "look", "sub/digits.leaven"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 2
    assert done.stderr == "error: `leaven look` needs matplotlib: pip install matplotlib\n"
