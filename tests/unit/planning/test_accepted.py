"""Recipes that pass the check are planned, and what `show` prints passes the check."""

from pathlib import Path

import pytest
from PIL import Image

from leaven.language.source import Source
from leaven.planning.compiling import compile_source
from leaven.program.emit import emit
from leaven.program.standalone import standalone
from leaven.recipe.show import to_text
from leaven.rules.checker import check

START = "model conv(4) -> global_pool() -> linear(classes)\ndata digits()\n"


@pytest.mark.parametrize("more", ['phase "a", epochs=0\nphase "b", epochs=0', "train epochs=0", "schedule plateau()"])
def test_an_accepted_recipe_becomes_a_program(more: str) -> None:
    plan = compile_source(Source("mine.leaven", START + more)).plan
    assert plan is not None
    assert emit(plan)
    assert standalone(plan)


@pytest.mark.parametrize("more", ["schedule plateau()", "early_stop val.loss", "schedule plateau(val.accuracy)"])
def test_what_is_shown_passes_the_check(more: str) -> None:
    recipe = check(Source("mine.leaven", START + more)).recipe
    assert recipe is not None
    again = check(Source("shown.leaven", to_text(recipe)))
    assert again.recipe is not None, again.diagnostics


@pytest.mark.parametrize("method", ["structured", "unstructured"])
def test_a_segmenting_model_that_is_pruned_becomes_a_standalone_program(method: str, tmp_path: Path) -> None:
    for folder, mode in (("images", "RGB"), ("masks", "L")):
        (tmp_path / folder).mkdir()
        for number in range(10):
            Image.new(mode, (32, 32), number % 2).save(tmp_path / folder / f"{number}.png")
    data = f'data mask_folder("{tmp_path.as_posix()}", classes=["no", "yes"])'
    text = f"model timm.test_resnet()\n{data}\nprune {method}(), amount=20%\ntrain epochs=1\n"
    plan = compile_source(Source("mine.leaven", text)).plan
    assert plan is not None
    assert "def evaluating" in standalone(plan)
