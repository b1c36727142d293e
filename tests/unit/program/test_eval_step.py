"""A user's evaluation step measures the test as it does the validation."""

from pathlib import Path

import pytest
from tests import at_work

import leaven
from leaven.language.source_files import read_source
from leaven.planning.compiling import compile_source
from leaven.planning.explain import explain
from leaven.program.standalone import standalone

MINE = """
from torch.nn.functional import one_hot

def always_right(model, batch):
    images, targets = batch
    return one_hot(targets, 10).float()
"""
RECIPE = """
import "mine.py" as mine
model conv(4) -> global_pool() -> linear(classes)
data digits() { split train=40 samples, val=20 samples, test=20 samples }
train epochs=1, batch=20
override eval_step, mine.always_right
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "recipe.leaven").write_text(RECIPE)
    return tmp_path / "recipe.leaven"


def test_the_test_is_measured_by_it(recipe: Path) -> None:
    file = at_work.program(recipe.parent, RECIPE)
    at_work.run(file)
    scores = leaven.load(at_work.run_folder(file) / "model.bundle", trust_code=True).scores
    assert scores["test.accuracy"] == 1


def test_a_standalone_program_measures_the_test_by_it(recipe: Path) -> None:
    plan = compile_source(read_source(recipe, recipe.name)).plan
    assert plan is not None
    file = recipe.with_suffix(".py")
    file.write_text(standalone(plan))
    assert "test.accuracy 1.0" in at_work.run(file).said


def test_a_session_measures_by_it(recipe: Path) -> None:
    with leaven.open(recipe) as session:
        assert session.evaluate() == {"val.accuracy": 1}


def test_of_two_files_with_one_name_it_is_the_right_one(recipe: Path) -> None:
    (recipe.parent / "other").mkdir()
    (recipe.parent / "other" / "mine.py").write_text("always_right = always_wrong = None\n")
    recipe.write_text(RECIPE.replace('import "mine.py"', 'import "other/mine.py" as another\nimport "mine.py"'))
    with leaven.open(recipe) as session:
        assert session.evaluate() == {"val.accuracy": 1}


def test_the_plan_says_that_bundles_are_used_without_it(recipe: Path) -> None:
    plan = compile_source(read_source(recipe, recipe.name)).plan
    assert plan is not None
    assert "test split, by mine.always_right; predictions of the bundle are made without it" in explain(plan)
