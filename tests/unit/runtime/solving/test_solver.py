"""Recipes that solve their head: what they record, how they go on, and what can't be solved."""

import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from tests import at_work

import leaven
from leaven import bundle

MODEL = "model conv(8, stride=2) -> conv(16) -> global_pool() -> dropout(0.5) -> linear(classes)\n"
DATA = "data digits() { split train=97 samples, val=40 samples, test=40 samples }\n"
SOLVED = MODEL + DATA + "linear_probe solver=lbfgs\n"


def head_of(file: Path, output: str = "runs") -> dict[str, torch.Tensor]:
    saved = torch.load(at_work.run_folder(file, output) / "last.ckpt", weights_only=True)["state"]["model"]
    return {name: value for name, value in saved.items() if name.startswith("4.")}


def rows(file: Path) -> list[dict[str, object]]:
    return leaven.open_run(at_work.run_folder(file)).curve


def test_a_run_solves_the_head_and_records_one_epoch(tmp_path: Path) -> None:
    program = at_work.program(tmp_path, SOLVED)
    said = at_work.run(program).said
    assert re.search(r"^train: solved in \d+\.\d s, L2 strength \S+ of 11 tried, val.accuracy 0\.\d{4}$", said, re.M)
    (row,) = rows(program)
    assert f"val.accuracy {row['val.accuracy']:.4f}" in said
    assert "lr" not in row
    model = bundle.load(at_work.run_folder(program) / "model.bundle")
    assert set(model.scores) == {"test.accuracy"}


def test_the_score_that_is_printed_is_that_of_the_head_that_is_used(tmp_path: Path) -> None:
    """With features that separate few samples, a head that is nearly solved is rated quite differently."""
    layers = "conv(32) -> conv(64, stride=2) -> conv(128, stride=2) -> global_pool() -> linear(classes)"
    data = "data digits() { split train=60 samples, val=90 samples, test=30 samples }"
    weakest = "linear_probe solver=lbfgs, l2=3e-4"
    program = at_work.program(tmp_path, f"model {layers}\n{data}\nmetrics f1()\nlinear_probe solver=lbfgs\n")
    said = at_work.run(program).said
    (row,) = rows(program)
    assert f"of 11 tried, val.f1 {row['val.f1']:.4f}" in said
    other = at_work.program(tmp_path, f"model {layers}\n{data}\nmetrics f1()\n{weakest}\n", "weak")
    at_work.run(other, "--output", "weak")
    (weak,) = leaven.open_run(at_work.run_folder(other, "weak")).curve
    assert row["val.f1"] > weak["val.f1"], "a weaker regularisation, whose head was not yet solved, seemed better"


def test_the_head_is_that_of_scikit_learn_on_the_same_features(tmp_path: Path) -> None:
    program = at_work.program(tmp_path, SOLVED.replace("lbfgs", "lbfgs, l2=0.01"))
    at_work.run(program)
    with leaven.open(tmp_path / "recipe.leaven") as session:
        session.model.load_state_dict(
            torch.load(at_work.run_folder(program) / "last.ckpt", weights_only=True)["state"]["model"]
        )
        body = session.model[:-1].eval()
        batches = list(session.data.train.batches(0, shuffle=False))
        with torch.no_grad():
            given = torch.cat([body(images) for images, _ in batches]).double()
            outputs = session.model[-1](given.float()).softmax(1).numpy()
        targets = torch.cat([each for _, each in batches])
    assert len(targets) == 97, "a batch of a single sample is not left out"
    scaled = ((given - given.mean(0)) / given.std(0, correction=0)).numpy()
    theirs = LogisticRegression(C=1 / (0.01 * len(targets)), tol=1e-10, max_iter=10_000).fit(scaled, targets.numpy())
    np.testing.assert_allclose(outputs, theirs.predict_proba(scaled), atol=1e-3)


def test_the_store_changes_nothing(tmp_path: Path) -> None:
    stored = at_work.program(tmp_path, SOLVED)
    assert "rest, features = phase.frozen_once(model, data)" in stored.read_text()
    plain = at_work.program(tmp_path, SOLVED + "train cache=off\n", "plain")
    assert "frozen_once" not in plain.read_text()
    at_work.run(stored, "--output", "stored")
    at_work.run(plain, "--output", "plain")
    one, other = head_of(stored, "stored"), head_of(plain, "plain")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_so_many_views_of_every_image_are_used(tmp_path: Path) -> None:
    data = DATA.replace("{", "{ train random_crop(8, padding=1);")
    recipe = f"{MODEL}{data}linear_probe solver=lbfgs\nfeatures views=3\n"
    program = at_work.program(tmp_path, recipe)
    assert "data = data.with_views(3)" in program.read_text()
    said = at_work.run(program, "--output", "stored").said
    found = re.search(r"ran the frozen layers once for (\d+) samples", said)
    assert found is not None
    assert int(found[1]) in (3 * 97, 3 * 97 + 40)  # another test may have stored those of validation
    plain = at_work.program(tmp_path, f"{recipe}train cache=off\n", "plain")
    at_work.run(plain, "--output", "plain")
    torch.testing.assert_close(head_of(program, "stored"), head_of(plain, "plain"), atol=5e-3, rtol=5e-3)


def test_a_solved_head_is_fine_tuned_by_the_next_phase(tmp_path: Path) -> None:
    phases = 'phase "head" { linear_probe solver=lbfgs }\nphase "all", epochs=2 { optimizer adamw(lr=1e-3) }\n'
    program = at_work.program(tmp_path, MODEL + DATA + phases)
    assert at_work.run(program).epochs == ["head 1/1", "all 1/2", "all 2/2"]
    assert ["lr" in row for row in rows(program)] == [False, True, True]
    alone = at_work.program(tmp_path, SOLVED, "alone")
    at_work.run(alone, "--output", "alone")
    left = torch.load(at_work.run_folder(program) / "phase1.ckpt", weights_only=True)["model"]
    assert all(torch.equal(left[name], value) for name, value in head_of(alone, "alone").items())


@pytest.mark.slow
@pytest.mark.parametrize("file", ["best.ckpt", "last.ckpt", "phase1.ckpt", "model.bundle"])
def test_a_run_that_was_killed_ends_the_same(file: str, tmp_path: Path) -> None:
    phases = 'phase "head" { linear_probe solver=lbfgs }\nphase "all", epochs=1 { optimizer adamw(lr=1e-3) }\n'
    program = at_work.program(tmp_path, MODEL + DATA + phases)
    at_work.run(program, "--output", "whole")
    at_work.kill(program, "--output", "killed", at=at_work.Moment(file=file))
    at_work.run(program, "--resume", str(at_work.run_folder(program, "killed")))
    one, other = head_of(program, "whole"), head_of(program, "killed")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_ctrl_c_stops_it_and_it_can_be_resumed(tmp_path: Path) -> None:
    program = at_work.program(tmp_path, SOLVED)
    stopped = at_work.start(program, moment=at_work.Moment(step=2), number=signal.SIGINT)  # of L-BFGS
    assert stopped.end() == 130
    assert "to resume: leaven resume" in stopped.said
    assert at_work.run(program, "--resume", str(at_work.run_folder(program))).epochs == ["train 1/1"]


def test_more_epochs_are_refused(tmp_path: Path) -> None:
    program = at_work.program(tmp_path, SOLVED)
    at_work.run(program)
    more = at_work.start(program, "--resume", str(at_work.run_folder(program)), "--more-epochs", "2")
    assert more.end() == 1
    assert 'the head of phase "train" is solved: more epochs would not change it' in more.said


@pytest.mark.slow
def test_two_processes_solve_the_same_head_as_one(tmp_path: Path) -> None:
    recipe = SOLVED.replace("97 samples", "96 samples")
    one = at_work.program(tmp_path, f"{recipe}train batch=16\n", "one")
    two = at_work.program(tmp_path, f"{recipe}train batch=16, devices=2\n", "two")
    at_work.run(one, "--output", "one")
    assert at_work.run(two, "--output", "two").said.count("train: solved in") == 1
    torch.testing.assert_close(head_of(two, "two"), head_of(one, "one"), atol=5e-3, rtol=5e-3)


def test_a_session_solves_it_in_one_step(tmp_path: Path) -> None:
    (tmp_path / "recipe.leaven").write_text(SOLVED)
    with leaven.open(tmp_path / "recipe.leaven") as session:
        before = session.evaluate()["val.accuracy"]
        session.step(2)
        assert session.evaluate()["val.accuracy"] > before


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("return self.head(self.body(images).mean((2, 3))).relu()", "head is not the last layer of the model"),
        ("return self.head(self.body(images).mean((2, 3))) + self.head.bias", "head is not the last layer"),
    ],
    ids=["something after it", "something added"],
)
def test_what_is_not_linear_is_refused_when_it_runs(model: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, classes=10):\n"
        "        super().__init__()\n        self.body = nn.Conv2d(1, 16, 3)\n"
        f"        self.head = nn.Linear(16, classes)\n\n    def forward(self, images):\n        {model}\n"
    )
    recipe = f'import "net.py"\nmodel net.Net()\n{DATA}linear_probe solver=lbfgs\n'
    program = at_work.start(at_work.program(tmp_path, recipe))
    assert program.end() == 1
    assert reason in program.said
    assert "recipe.leaven:4" in program.said


def test_without_a_validation_split_the_strength_must_be_given(tmp_path: Path) -> None:
    data = "data digits() { split train=50%, val=0%, test=50% }\n"
    program = at_work.start(at_work.program(tmp_path, SOLVED.replace(DATA, data)))
    assert program.end() == 1
    assert "write the strength: `l2=0.01`" in program.said
    given = at_work.run(at_work.program(tmp_path, SOLVED.replace(DATA, data).replace("lbfgs", "lbfgs, l2=0.01")))
    assert "L2 strength 0.01\n" in given.said


@pytest.mark.parametrize(
    ("ask", "columns", "score"),
    [('labels="tags"', "tags", "average_precision"), ('target=["level", "half"]', "level,half", "mae")],
)
def test_other_tasks_are_solved_too(ask: str, columns: str, score: str, tmp_path: Path) -> None:
    lines = [f"file,{columns}"]
    for number in range(60):
        Image.new("RGB", (12, 12), (4 * number, 255 - 4 * number, 30)).save(tmp_path / f"{number}.png")
        tags = ";".join(name for name, is_so in (("dark", number < 30), ("light", number > 20)) if is_so)
        lines.append(f"{number}.png,{tags if columns == 'tags' else f'{4 * number},{2 * number + 1}'}")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    outputs = "classes" if columns == "tags" else "outputs"
    data = f'data csv("table.csv", image="file", {ask}) {{ train resize([12, 12]); eval resize([12, 12]) }}\n'
    model = f"model conv(8) -> max_pool() -> conv(16) -> global_pool() -> linear({outputs})\n"
    program = at_work.program(tmp_path, f"{model}{data}linear_probe solver=lbfgs\n")
    said = at_work.run(program).said
    (row,) = rows(program)
    assert f"tried, val.{score} " in said
    good = row[f"val.{score}"] > 0.9 if columns == "tags" else row[f"val.{score}"] < 40
    assert good, row
