"""Long strings in programs: in pieces where they can be divided, as they are where not."""

import ast
from pathlib import Path

import pytest

import leaven
from leaven.language.source import Source
from leaven.program.code import WIDTH, Code, listing, statement, text
from leaven.program.standalone import standalone

LONG, WORDS = "n" * 150, "word " * 60
HEAD = "model conv(8) -> global_pool() -> linear(classes)\ndata digits()\n"
OWN = f"""
from torch import nn


class {"C" * 150}(nn.Module):
    def __init__(self, classes: int, {"k" * 130}: str = "a") -> None:
        super().__init__()
        self.fc = nn.Linear(1, classes)
"""
RECIPES = {
    "an arg": f'arg {LONG}: float = 1e-3 "{WORDS}{LONG}"\n{HEAD}optimizer sgd(lr={LONG})\n',
    "a phase": f'{HEAD}phase "{LONG}", epochs=1\n',
    "phases": f'{HEAD}phase "{WORDS}", epochs=1\nphase "{LONG} {LONG}", epochs=1\n',
    "an output": f'{HEAD}output "{LONG}/{LONG}"\n',
    "own code": f'import "net.py" as {"m" * 120}\n'
    f'model {"m" * 120}.{"C" * 150}({"k" * 130}="{WORDS}")\ndata digits()\n',
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_names_may_be_longer_than_a_line(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OWN)
    file = tmp_path / "recipe.leaven"
    file.write_text(RECIPES[recipe])
    ast.parse(leaven.generate(file))
    if recipe != "own code":
        ast.parse(standalone(leaven.make_plan(Source("recipe.leaven", RECIPES[recipe]))))


@pytest.mark.parametrize("value", ["short", LONG, f"{LONG} {LONG}", WORDS, WORDS + LONG, " " * 200, "\\n" * 100])
@pytest.mark.parametrize("depth", [0, 1, 27, 28, 29, 60])
def test_a_string_stays_the_same_however_it_is_divided(value: str, depth: int) -> None:
    code: Code = text(value)
    for _ in range(depth):
        code = listing(code)
    (assignment,) = ast.parse("\n".join(statement("x = ", code, depth=0))).body
    assert isinstance(assignment, ast.Assign)
    found = ast.literal_eval(assignment.value)
    for _ in range(depth):
        (found,) = found
    assert found == value


def test_words_are_divided_among_lines() -> None:
    assert max(map(len, statement("x = ", text(WORDS)))) <= WIDTH
