"""How the model of a recipe is built."""

from pathlib import Path

import pytest

import leaven
from leaven.program.emit import emit


@pytest.mark.parametrize("name", ["classes", "num_classes", "outputs", "num_outputs"])
def test_a_custom_model_gets_the_number_of_outputs_by_its_own_name_for_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        f"from torch import nn\n\n\nclass Net(nn.Linear):\n"
        f"    def __init__(self, width: int, {name}: int):\n        super().__init__(width, {name})\n"
    )
    recipe = tmp_path / "recipe.leaven"
    recipe.write_text('import "net.py" as mine\n\nmodel mine.Net(64)\ndata digits()\ntrain epochs=1\n')
    assert f"mine.Net(width=64, {name}=num_classes)" in emit(leaven.make_plan(recipe), "program.py")
