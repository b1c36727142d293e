"""`leaven.run` of a recipe with a sweep."""

from pathlib import Path

import pytest

import leaven
from leaven.runs.sweep import Sweep

RECIPE = """
arg lr: float = 0.1
model conv(4) -> global_pool() -> linear(classes)
data digits() { split train=64 samples, val=16 samples, test=16 samples }
optimizer sgd(lr=lr)
train epochs=1, batch=16
sweep lr, [0.01, 0.5]
"""


@pytest.mark.usefixtures("quick_programs")
def test_a_sweep_has_its_trials_and_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.leaven").write_text(RECIPE)
    sweep = leaven.run("r.leaven", name="two")
    assert isinstance(sweep, Sweep)
    assert [trial.values for trial in sweep.trials] == [{"lr": 0.01}, {"lr": 0.5}]
    scores = [trial.score for trial in sweep.trials]
    assert sweep.best.score == max(score for score in scores if score is not None)
    assert sweep.scores == sweep.best.scores == sweep.model.scores
    assert sweep.curve == sweep.best.curve
    assert [trial.is_finished for trial in sweep.trials] == [
        trial.folder == sweep.best.folder for trial in sweep.trials
    ]
    assert repr(sweep).startswith("<Sweep of 2 trials runs/r/two: finished, 1 epoch; test.accuracy 0.")
    again = leaven.open_run("runs/r")
    assert isinstance(again, Sweep)
    assert again.resume() is again, "there is nothing left to do"
    with pytest.raises(ValueError, match="its trials can"):
        again.resume(epochs=1)
    assert not isinstance(leaven.run("r.leaven", lr=0.2, quick=True), Sweep), "a value in place of the sweep"
