"""Which epoch is kept, when a phase ends, and what one phase leaves to the next."""

import csv
from pathlib import Path

import torch
from tests import at_work
from tests.pages import carry_out

NET = "model conv(8) -> conv(16, stride=2) -> global_pool() -> linear(classes)\n"
DIGITS = "data digits() { split train=80 samples, val=40 samples, test=40 samples }\n"
PHASES = 'phase "first", epochs=1 { optimizer sgd(lr=0.1) }\nphase "second", epochs=1 {}\ntrain batch=8\n'


def rows(folder: Path, phase: str = "train") -> list[dict[str, float]]:
    """The scores of every epoch of a phase."""
    found = csv.DictReader((folder / "metrics.csv").open())
    return [
        {name: float(value) for name, value in row.items() if name != "phase"} for row in found if row["phase"] == phase
    ]


def test_early_stopping_watches_one_score_and_the_best_epoch_is_chosen_by_another(tmp_path: Path) -> None:
    recipe = (
        NET + DIGITS + "train epochs=6, batch=8\ncheckpoint by=val.accuracy\nearly_stop val.loss, patience=50 epochs\n"
    )
    file = at_work.program(tmp_path, recipe)
    at_work.run(file)
    folder = at_work.run_folder(file)
    scores = rows(folder)
    best = max(scores, key=lambda row: (row["val.accuracy"], -row["val.loss"]))
    assert torch.load(folder / "best.ckpt", weights_only=True)["epoch"] == best["epoch"]


def test_equal_scores_are_told_apart_by_the_loss(tmp_path: Path) -> None:
    recipe = NET + DIGITS + "optimizer sgd(lr=1e-6)\ntrain epochs=3, batch=40\n"  # too slow to change an answer
    file = at_work.program(tmp_path, recipe)
    at_work.run(file)
    folder = at_work.run_folder(file)
    scores = rows(folder)
    assert len({row["val.accuracy"] for row in scores}) == 1
    lowest = min(scores, key=lambda row: row["val.loss"])
    assert torch.load(folder / "best.ckpt", weights_only=True)["epoch"] == lowest["epoch"]


def test_without_a_validation_loss_that_of_training_tells_equal_scores_apart(tmp_path: Path) -> None:
    """As for a detector that finds nothing yet: the first epoch is not the best of those."""
    file = at_work.program(tmp_path, NET + DIGITS + "optimizer sgd(lr=1e-6)\ntrain epochs=3, batch=40\n")
    text = file.read_text()
    file.write_text(text.replace("data.val, metrics, criterion)", "data.val, metrics)"))
    assert file.read_text() != text
    at_work.run(file)
    scores = rows(at_work.run_folder(file))
    assert len({row["val.accuracy"] for row in scores}) == 1
    lowest = min(scores, key=lambda row: row["train.loss"])
    assert torch.load(at_work.run_folder(file) / "best.ckpt", weights_only=True)["epoch"] == lowest["epoch"]


def test_a_phase_that_stopped_early_hands_on_its_best(tmp_path: Path) -> None:
    phases = (
        'phase "first", epochs=8 { optimizer sgd(lr=2.0); early_stop val.loss, patience=1 epoch }\n'
        'phase "second", epochs=1 { optimizer sgd(lr=1e-3) }\n'
    )
    file = at_work.program(tmp_path, NET + DIGITS + phases + 'train batch=8\ncheckpoint keep="all"\n')
    said = at_work.run(file).said
    assert "has not improved for 1 epoch" in said
    folder = at_work.run_folder(file)
    best = max(rows(folder, "first"), key=lambda row: (row["val.accuracy"], -row["val.loss"]))
    left = torch.load(folder / "phase1.ckpt", weights_only=True)["model"]
    kept = torch.load(folder / f"phase1-epoch{int(best['epoch'])}.ckpt", weights_only=True)
    assert kept["epoch"] == best["epoch"]
    assert all(torch.equal(left[name], kept["model"][name]) for name in left)


def test_an_optimizer_goes_on_where_it_was_if_asked(tmp_path: Path) -> None:
    phases = 'phase "a", epochs=1 { }\nphase "b", epochs=1, keep=optimizer { }\n'
    file = at_work.program(tmp_path, NET + DIGITS + "optimizer adamw(lr=1e-3)\n" + phases + "train batch=8\n")
    at_work.run(file)
    saved = torch.load(at_work.run_folder(file) / "last.ckpt", weights_only=True)
    assert {int(state["step"]) for state in saved["state"]["optimizer"]["state"].values()} == {20}


def test_a_later_phase_begins_with_what_the_one_before_left(tmp_path: Path) -> None:
    (tmp_path / "r.leaven").write_text(NET + DIGITS + PHASES)
    code, said = carry_out("leaven run r.leaven", tmp_path)
    assert code == 0, said
    code, said = carry_out("leaven run r.leaven --from second", tmp_path)
    assert code == 0, said
    old, new = sorted((tmp_path / "runs" / "r").iterdir())
    left, right = (torch.load(run / "last.ckpt", weights_only=True)["state"]["model"] for run in (old, new))
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert "first" not in said


def test_a_later_phase_is_refused_where_those_before_it_have_changed(tmp_path: Path) -> None:
    (tmp_path / "r.leaven").write_text(NET + DIGITS + PHASES)
    assert carry_out("leaven run r.leaven --quick --name small", tmp_path)[0] == 0
    (tmp_path / "r.leaven").write_text(
        NET + DIGITS + PHASES.replace('phase "second"', 'phase "new", epochs=1 {}\nphase "second"')
    )
    code, said = carry_out("leaven run r.leaven --from second --of runs/r/small_quick", tmp_path)
    assert code == 2
    assert "has finished the phases before" in said
    (tmp_path / "r.leaven").write_text(NET + DIGITS + PHASES.replace("lr=0.1", "lr=0.2"))
    code, said = carry_out("leaven run r.leaven --from second --of runs/r/small_quick", tmp_path)
    assert code == 2
    assert "phase `first` has changed since" in said


def test_a_later_phase_is_refused_where_those_before_it_depend_on_an_arg_that_has_changed(tmp_path: Path) -> None:
    args = "arg lambda: float = 0.1\narg n: int = 1\narg later: float = 1e-3\n"
    phases = PHASES.replace("epochs=1", "epochs=n", 1).replace("lr=0.1", "lr=lambda * 2")
    recipe = args + NET + DIGITS + phases.replace("{}", "{ optimizer sgd(lr=later) }")
    (tmp_path / "r.leaven").write_text(recipe)
    assert carry_out("leaven run r.leaven", tmp_path)[0] == 0
    (run,) = (tmp_path / "runs" / "r").iterdir()
    for flags in ("--lambda 0.5", "--n 2"):
        code, said = carry_out(f"leaven run r.leaven --from second {flags}", tmp_path)
        assert code == 2, said
        name, value = flags.split()
        assert f"{name} was " in said
        assert f"and is {value} now" in said
    assert len(list((tmp_path / "runs" / "r").iterdir())) == 1
    code, said = carry_out(f"python {run}/program.py --from second --of {run} --lambda 0.5", tmp_path)
    assert code != 0
    assert "--lambda was 0.1 in " in said
    assert carry_out("leaven run r.leaven --from second --later 0.01", tmp_path)[0] == 0
