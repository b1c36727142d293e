"""F1, precision and recall of one class: what torchmetrics computes for it, under a name that a recipe can write."""

import csv
import json
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tests import at_work
from torchmetrics.functional.classification import multiclass_f1_score, multiclass_precision, multiclass_recall

import leaven
from leaven.program.standalone import standalone
from leaven.runtime.failures import Failure
from leaven.tasks.classification import F1Of, PrecisionOf, RecallOf

RECIPE = """\
model conv(4) -> global_pool() -> linear(classes)
data csv("mails.csv", image="file", label="kind"{more}) {{ eval resize([16, 16]); sampler balanced() }}
metrics f1(of="{name}"), f1(), recall(of="{name}"), recall(of="ham"), precision(of="{name}"), accuracy()
optimizer adamw(lr=0.1)
early_stop val.{score}, patience=5 epochs
train epochs=4, batch=8
"""


@pytest.mark.parametrize(
    ("of", "expected"),
    [(F1Of, multiclass_f1_score), (PrecisionOf, multiclass_precision), (RecallOf, multiclass_recall)],
)
def test_it_is_what_torchmetrics_computes_for_that_class(of: Any, expected: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(0)
    outputs, targets = torch.randn(50, 3), torch.randint(3, (50,))
    each = expected(outputs, targets, num_classes=3, average="none")
    for at, name in enumerate("abc"):
        metric = of(name, ("a", "b", "c"))
        metric.update(outputs, targets)
        assert metric.compute() == each[at]


def test_a_class_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(Failure, match="the data has no class `spma`"):
        F1Of("spma", ("ham", "spam"))


def mails(folder: Path, name: str, labels: tuple[str, ...] = ()) -> None:
    """Dark images of a rare class, and bright ones; their labels, where the table has others than the names."""
    rows = [["file", "kind"]]
    for number in range(60):
        kind = name if number % 5 == 0 else "ham"
        Image.new("RGB", (16, 16), (9 * (number % 7),) * 3 if kind == name else (200, 180, 160)).save(
            folder / f"{number}.png"
        )
        rows.append([f"{number}.png", labels[kind == name] if labels else kind])
    with (folder / "mails.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.mark.parametrize(
    ("name", "score"),
    [("spam", "f1_spam"), pytest.param("Müll & Co. 2.0", "f1_Müll_Co_2_0", marks=pytest.mark.slow)],
)
def test_it_chooses_the_epoch_in_both_forms(tmp_path: Path, name: str, score: str) -> None:
    labels = ("7", "10") if name == "spam" else ()
    mails(tmp_path, name, labels)
    more = f', class_names=["ham", "{name}"]' if labels else ""
    file = at_work.program(tmp_path, RECIPE.format(name=name, score=score, more=more))
    said = at_work.run(file).said
    assert f"val.{score} " in said
    (folder,) = (tmp_path / "runs/recipe").iterdir()
    rows = list(csv.DictReader((folder / "metrics.csv").open(encoding="utf-8")))
    best = max(rows, key=lambda row: (float(row[f"val.{score}"]), -float(row["val.loss"])))
    bundle = leaven.load(folder)
    assert set(bundle.classes) == {"ham", name}
    assert set(bundle.evaluate(str(tmp_path / "mails.csv"), image="file").per_class) == {"ham", name}
    assert bundle.manifest.epoch is not None
    assert str(bundle.manifest.epoch.number) == best["epoch"]
    counterparts = {score.replace("f1", "recall"), score.replace("f1", "precision"), "recall_ham", "f1", "accuracy"}
    assert {f"test.{each}" for each in (score, *counterparts)} <= bundle.scores.keys()
    with chdir(tmp_path):
        file.write_text(standalone(leaven.make_plan(Path("recipe.leaven"))), encoding="utf-8")
    again = at_work.run(file, "--output", "alone").said
    (names,) = (tmp_path / "alone").glob("*/classes.json")
    assert set(json.loads(names.read_text())) == {"ham", name}
    assert f"test.{score} {bundle.scores[f'test.{score}']:.4f}" in again


def test_it_is_what_a_sweep_and_a_session_go_by(tmp_path: Path) -> None:
    mails(tmp_path, "spam")
    recipe = "arg lr: float = 0.1\n" + RECIPE.format(name="spam", score="f1_spam", more="").replace("lr=0.1", "lr=lr")
    (tmp_path / "r.leaven").write_text(recipe + "sweep lr, [0.1, 0.01], by=val.f1_spam\n")
    with chdir(tmp_path):
        plan = leaven.make_plan(Path("r.leaven"))
        assert plan.sweep is not None
        assert plan.sweep.by == "val.f1_spam"
        with leaven.open("r.leaven") as session:
            assert "val.f1_spam" in session.evaluate()
