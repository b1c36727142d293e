"""Recipes that pass the check are planned, and what `show` prints passes the check."""

import pytest

from leaven.language.source import Source
from leaven.plan.compiling import compile_source
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
