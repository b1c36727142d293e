"""What happens to a picture where the recipe does not say."""

from pathlib import Path

import leaven
from leaven.language.source import Source

OWN = """
from torch import nn
from torch.utils.data import Dataset

class Spots(Dataset):
    classes = ("left", "right")

class Net(nn.Module):
    def __init__(self, classes): ...
"""


def steps_of(recipe: str, folder: Path = Path()) -> tuple[list[str], list[str]]:
    checked = leaven.check(Source("recipe.leaven", recipe, folder))
    assert checked.recipe is not None
    data = checked.recipe.data
    assert data.train is not None
    assert data.eval is not None
    return [step.card.friendly for step in data.train.stages], [step.card.friendly for step in data.eval.stages]


def test_pictures_become_numbers_before_they_are_normalised() -> None:
    _, steps = steps_of(
        "model conv(8) -> global_pool() -> linear(classes)\ndata digits() { eval normalize([0.5], [0.5]) }"
    )
    assert steps == ["to_tensor", "normalize"]


def test_normalisation_has_a_number_for_each_channel() -> None:
    checked = leaven.check(Source("recipe.leaven", "model resnet18(in_chans=1)\ndata digits() { eval resize(32) }"))
    assert checked.recipe is not None
    assert checked.recipe.data.eval is not None
    assert checked.recipe.data.eval.stages[-1].value("mean") == (0.449,)


def test_nobody_knows_whether_ones_own_data_may_be_mirrored(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    begin = 'import "mine.py" as mine\ndata mine.Spots()\n'
    train, eval = steps_of(begin + "model resnet18()", tmp_path)
    assert train == eval == ["resize", "center_crop", "to_tensor", "normalize"]
    train, eval = steps_of(begin + "model mine.Net()", tmp_path)
    assert train == eval == ["to_tensor"]
