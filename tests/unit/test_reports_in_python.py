"""Reports of a call in Python speak of keyword arguments, where those of the shell speak of options."""

from pathlib import Path
from typing import Any

import pytest

import leaven

RECIPE = "arg lr: float\nmodel resnet18()\ndata digits()\noptimizer adamw(lr=lr)\n"


def report_of(folder: Path, **given: Any) -> str:
    recipe = folder / "digits.leaven"
    recipe.write_text(RECIPE)
    with pytest.raises(leaven.RecipeError) as raised:
        leaven.run(recipe, **given)
    return str(raised.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"learning_rate": 3e-4}, "help: did you mean `lr=3e-4`?"),
        ({}, "help: give it a value: `lr=…`"),
        ({"lr": 1e-3, "mixup": 0.2}, 'help: write `with_="mixup 0.2"`'),
        ({"lr": 1e-3, "fp16": True}, 'help: write `set={"train.precision": "fp16"}`'),
        ({"lr": 1e-3, "imgsz": 64}, 'help: write `set={"data.size.pixels": 64}`'),
        ({"lr": 1e-3, "set": {"epochs": 3}}, 'help: write `set={"train.epochs": 3}`'),
        ({"lr": "fast"}, "error[wrong-type]: `lr=` must be a number, not `fast`\n --> lr=:1:1"),
        ({"lr": 1e-3, "load_best_model_at_end": True}, "help: remove it: a run ends with"),
    ],
    ids=str,
)
def test_a_report_names_keyword_arguments(given: dict[str, Any], expected: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, **given)
    assert expected in report
    assert "--" not in report.replace("-->", "")


def test_a_sweep_of_options_is_one_dictionary(tmp_path: Path) -> None:
    recipe = tmp_path / "phases.leaven"
    recipe.write_text('model resnet18()\ndata digits()\nphase "a", epochs=1\nphase "b", epochs=1\n')
    with pytest.raises(leaven.RecipeError, match=r'write `set=\{"phase.a.epochs": 3, "phase.b.epochs": 3\}`'):
        leaven.run(recipe, epochs=3)
