"""Which run, model or recipe a word means."""

from pathlib import Path

import pytest

from leaven.lab.subject import Subject
from leaven.runtime.failures import Failure


def test_a_recipe_has_a_plan_and_no_model(tmp_path: Path) -> None:
    recipe = tmp_path / "digits.leaven"
    recipe.write_text("model resnet18()\ndata digits()\n")
    subject = Subject(recipe)
    assert subject.plan is not None
    assert subject.run is None
    with pytest.raises(Failure, match="no trained model"):
        _ = subject.model


def test_errors_of_a_recipe_are_reported(tmp_path: Path) -> None:
    recipe = tmp_path / "digits.leaven"
    recipe.write_text("model resnet18()\ndata digits()\nfreeze layre4\n")
    with pytest.raises(Failure, match="layre4"):
        _ = Subject(recipe).plan


def test_a_published_model_has_no_data() -> None:
    subject = Subject("efficientnet_lite0")
    assert subject.plan is None
    assert len(subject.model.classes) == 1000
    with pytest.raises(Failure, match="data is not known"), subject.data():
        pass
