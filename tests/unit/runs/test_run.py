"""`leaven.run`: training from Python, as far as the command line goes."""

import io
import json
import signal
import sys
from pathlib import Path

import pytest

import leaven

RECIPE = """
arg lr: float = 0.1
model conv(4) -> global_pool() -> linear(classes)
data digits() { split train=64 samples, val=16 samples, test=16 samples }
optimizer sgd(lr=lr)
train epochs=2, batch=16
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "r.leaven"
    file.write_text(RECIPE)
    return file


def test_a_run_is_a_value(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = leaven.run("r.leaven", lr=0.05, set={"train.batch": 32}, with_="log csv()", name="mine")
    printed = capsys.readouterr().out
    assert "train 2/2" in printed, "what the program prints is shown"
    assert run.folder == Path("runs/r/mine")
    assert [(row["phase"], row["epoch"]) for row in run.curve] == [("train", 1), ("train", 2)]
    assert isinstance(run.curve[0]["val.accuracy"], float)
    assert list(run.scores) == ["test.accuracy"]
    assert run.model.scores == run.scores
    assert repr(run).startswith("<Run runs/r/mine: finished, 2 epochs; test.accuracy 0.")
    lock = json.loads((run.folder / "lock.json").read_text())
    assert lock["commands"] == [
        "leaven.run('r.leaven', leaven.Options(args={'lr': '0.05'}, settings=('train.batch=32',), "
        "additions=('log csv()',)), name='mine')"
    ]
    assert run.finish() is run, "there is nothing left to do"
    assert leaven.open_run("runs/r").folder == run.folder


@pytest.mark.usefixtures("quick_programs")
def test_a_failure_is_raised_with_its_report(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(leaven.Failure, match="the loss is") as raised:
        leaven.run(recipe, leaven.Options(args={"lr": "1e30"}), quick=False, set={"train.clip": "none"})
    assert "learning rate" in raised.value.help
    assert "r.leaven" in raised.value.headline, "with the line of the recipe"
    assert "error" not in capsys.readouterr().out


class Impatient(io.StringIO):
    """A reader who presses Ctrl-C after the first epoch."""

    def write(self, text: str) -> int:
        if text.startswith("train 1/"):
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


def test_ctrl_c_saves_and_stops(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Impatient())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            leaven.run(recipe, set={"train.epochs": 100_000})
    finally:
        signal.signal(signal.SIGINT, before)
    run = leaven.open_run(recipe.parent / "runs" / "r")
    assert not run.is_finished
    assert (run.folder / "last.ckpt").is_file()
    assert len(run.curve) < 100_000


def test_errors_of_a_recipe_start_nothing(recipe: Path) -> None:
    with pytest.raises(leaven.RecipeError, match="lrr"):
        leaven.run(recipe, lrr=1)
    with pytest.raises(ValueError, match="can't be the name of a run"):
        leaven.run(recipe, name="a/b")
    with pytest.raises(ValueError, match="the recipe has no phase `trian`; did you mean `train`"):
        leaven.run(recipe, from_phase="trian")
    assert not (recipe.parent / "runs").exists()


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(leaven.Failure, match="is not a run: the folder does not exist"):
        leaven.open_run(tmp_path / "nowhere")
