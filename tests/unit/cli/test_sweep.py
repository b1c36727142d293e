"""`leaven run` with a sweep, as a person types it: its trials, the best of them, and going on after an interruption."""

import csv
import json
import os
import shutil
from pathlib import Path

import pytest
from tests.pages import carry_out

from leaven import runtime

RECIPE = """
arg lr: float = 0.1
model conv(4) -> global_pool() -> linear(classes)
data digits() { split train=64 samples, val=16 samples, test=16 samples }
optimizer sgd(lr=lr)
train epochs=2, batch=16, clip=none
sweep lr, [0.01, 1e30, 0.3]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe and a sweep of it, called `three`, of which the second trial diverges."""
    folder = tmp_path_factory.mktemp("sweeps")
    (folder / "r.leaven").write_text(RECIPE)
    (folder / "said").write_text(succeed("leaven run r.leaven --name three", folder))
    return folder


@pytest.fixture
def folder(place: Path, tmp_path: Path) -> Path:
    return shutil.copytree(place, tmp_path / "copy")


def succeed(command: str, folder: Path) -> str:
    code, said = carry_out(command, folder)
    assert code == 0, said
    return said


def lock(run: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run / "lock.json").read_text())
    return found


def forget(run: Path, *names: str, **facts: object) -> None:
    """Let a run look as if it had been killed before it wrote these files."""
    for name in names:
        (run / name).unlink()
    (run / "lock.json").write_text(json.dumps({**lock(run), **facts}))


def test_every_value_is_a_run_and_the_best_gives_the_model(place: Path) -> None:
    sweep = place / "runs/r/three"
    rows = list(csv.DictReader((sweep / "trials.csv").open()))
    assert [(row["trial"], row["lr"]) for row in rows] == [
        ("trial-01", "0.01"),
        ("trial-02", "1e+30"),
        ("trial-03", "0.3"),
    ]
    assert rows[1]["diverged"].startswith("the loss is nan")
    first, last = float(rows[0]["val.accuracy"]), float(rows[2]["val.accuracy"])
    best = lock(sweep)["best"]
    assert best == ("trial-03" if last >= first else "trial-01")
    assert [(run / "model.bundle").is_file() for run in sorted(sweep.glob("trial-*"))] == [
        run.name == best for run in sorted(sweep.glob("trial-*"))
    ]
    assert (sweep / "model.bundle").read_bytes() == (sweep / str(best) / "model.bundle").read_bytes()
    assert "test.accuracy" in json.loads((sweep / "scores.json").read_text())
    assert lock(sweep / "trial-03")["arguments"]["lr"] == 0.3  # type: ignore[index]
    assert lock(sweep / "trial-01")["commands"] == ["leaven run r.leaven --name three"]


def test_the_table_has_the_best_first(place: Path) -> None:
    said = (place / "said").read_text()
    assert "trial 2/3: lr=1e30" in said
    assert "diverged: the loss is nan" in said
    head, *lines = said[said.rindex("  trial ") :].splitlines()[:4]
    assert head.split() == ["trial", "lr", "val.accuracy", "epoch", "time"]
    assert lines[0].split()[0] == str(lock(place / "runs/r/three")["best"])[-1]
    assert lines[2].split()[:3] == ["2", "1e30", "diverged"]
    assert said.endswith("as runs/r/three/model.bundle\n")


def test_a_trial_is_what_a_run_with_that_value_is(folder: Path) -> None:
    said = succeed("leaven run r.leaven --lr 0.3 --name one", folder)
    assert "trial" not in said, "the option takes the place of the sweep"
    sweep, one = folder / "runs/r/three", folder / "runs/r/one"
    columns = [
        [{**row, "seconds": ""} for row in csv.DictReader((run / "metrics.csv").open())]
        for run in (sweep / "trial-03", one)
    ]
    assert columns[0] == columns[1]


def test_the_model_is_found_by_the_folder(folder: Path) -> None:
    runtime.digits().load(0).save(folder / "digit.png")
    for run in ("runs/r", "runs/r/three"):
        assert "three/model.bundle" in succeed(f"leaven predict {run} digit.png", folder)
    assert "16 images" in succeed("leaven evaluate runs/r/three", folder)
    assert succeed("leaven resume runs/r/three", folder) == "runs/r/three is finished\n"
    code, said = carry_out("leaven resume runs/r/three --epochs +1", folder)
    assert code == 2
    assert "leaven resume runs/r/three/trial-0" in said
    other = "trial-01" if lock(folder / "runs/r/three")["best"] == "trial-03" else "trial-03"
    assert f"runs/r/three/{other}/model.bundle" in succeed(f"leaven finish runs/r/three/{other}", folder)


def test_a_sweep_that_was_killed_goes_on_with_what_is_left(folder: Path) -> None:
    sweep = folder / "runs/r/three"
    rows = (sweep / "trial-01/metrics.csv").read_text()
    shutil.rmtree(sweep / "trial-03")
    (sweep / "trial-03").mkdir()
    for name in ("program.py", "plan.json", "recipe.leaven", "resolved.leaven", "plan.txt"):
        shutil.copy(sweep / name, sweep / "trial-03")
    begun = {name: lock(sweep)[name] for name in ("program", "started", "recipe_folder", "started_in")}
    (sweep / "trial-03/lock.json").write_text(json.dumps(begun))
    forget(sweep, "model.bundle", "trials.csv", "scores.json", finished=False, trained=False)
    runtime.digits().load(0).save(folder / "digit.png")
    assert "trial-01" in succeed("leaven predict runs/r/three digit.png", folder), "the best trial so far"
    said = succeed("leaven resume runs/r", folder)
    assert "trial 3/3" in said
    assert "trial 1/3" not in said
    assert "trial 2/3" not in said, "a trial that diverged would do so again"
    assert (sweep / "trial-01/metrics.csv").read_text() == rows
    assert (sweep / "model.bundle").is_file()


def test_a_sweep_can_be_finished_with_the_best_trial_so_far(folder: Path) -> None:
    sweep = folder / "runs/r/three"
    shutil.rmtree(sweep / "trial-03")
    shutil.copytree(sweep / "trial-02", sweep / "trial-03")
    forget(sweep / "trial-03", diverged=None, trained=False)
    forget(sweep, "model.bundle", "trials.csv", "scores.json", finished=False, trained=False)
    said = succeed("leaven finish runs/r/three", folder)
    assert "saved the model of trial-01" in said
    again = succeed("leaven finish runs/r/three", folder)
    assert again == "runs/r/three is finished early; `leaven resume runs/r/three` trains the rest of it\n"


def test_a_smoke_test_has_two_trials(folder: Path) -> None:
    said = succeed("leaven run r.leaven --quick --with 'sweep lr, [0.1, 0.2, 0.3]'", folder)
    assert "trial 2/2" in said
    (sweep,) = (folder / "runs/r").glob("*_quick")
    assert (sweep / "model.bundle").is_file()


def test_all_pairs_and_seeds(folder: Path) -> None:
    (folder / "two.leaven").write_text(
        RECIPE.replace("sweep lr, [0.01, 1e30, 0.3]", "")
        .replace("arg lr", "arg seed: int\narg lr")
        .replace("clip=none", "clip=none, seed=seed")
        + "sweep lr, [0.1, 0.2], by=val.loss\nsweep seed, [0, 1]\n"
    )
    said = succeed("leaven plan two.leaven", folder)
    assert "4 trials, compared by val.loss" in said
    said = succeed("leaven run two.leaven --set train.epochs=1 --name pairs", folder)
    rows = list(csv.DictReader((folder / "runs/two/pairs/trials.csv").open()))
    assert [(row["lr"], row["seed"]) for row in rows] == [("0.1", "0"), ("0.1", "1"), ("0.2", "0"), ("0.2", "1")]
    losses = [float(row["val.loss"]) for row in rows]
    assert len(set(losses)) == 4
    best = rows[losses.index(min(losses))]["trial"]
    assert lock(folder / "runs/two/pairs")["best"] == best


def test_any_other_failure_ends_the_sweep(folder: Path) -> None:
    (folder / "mine.py").write_text("def loss(outputs, targets):\n    raise ValueError('not today')\n")
    (folder / "bad.leaven").write_text('import "mine.py" as mine\n' + RECIPE + "loss mine.loss\n")
    code, said = carry_out("leaven run bad.leaven --name bad", folder)
    assert code == 1
    assert "error: ValueError: not today" in said
    assert "then go on with the sweep: leaven resume runs/bad/bad" in said
    assert "trial 2/3" not in said


def test_ctrl_c_saves_and_says_how_to_go_on(folder: Path) -> None:
    if os.name != "posix":
        pytest.skip("signals")
    (folder / "mine.py").write_text(
        "import os, signal\nfrom torch.nn.functional import cross_entropy\n"
        "def loss(outputs, targets):\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return cross_entropy(outputs, targets)\n"
    )
    (folder / "own.leaven").write_text('import "mine.py" as mine\n' + RECIPE + "loss mine.loss\n")
    code, said = carry_out("leaven run own.leaven --name own", folder)
    assert code == 130
    assert "to resume: leaven resume runs/own/own" in said
    assert (folder / "runs/own/own/trial-01/last.ckpt").is_file()
