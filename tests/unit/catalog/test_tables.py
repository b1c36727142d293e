"""Tables of names in TOML files: what they mean, what is wrong with one, and when they are read."""

import re
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import pytest

from leaven.catalog import habits, lookup, other_names, own, tables
from leaven.catalog.card import KINDS
from leaven.catalog.tables import ByName, TableError, Words

# Prints what a command opens.
LISTING = """
import sys
sys.addaudithook(lambda event, args: event == "open" and print(args[0]))
from leaven.cli.main import main
main()
"""


class Shape(TypedDict):
    words: ByName
    groups: dict[str, Words]


def read(text: str, folder: Path) -> Shape:
    file = folder / "some.toml"
    file.write_text(text, encoding="utf-8")
    return tables.read(file, Shape)


def test_names_are_found_by_each_of_several_in_a_string(tmp_path: Path) -> None:
    found = read('[words]\nlr = "base_lr lr0"\n[groups.a]\nx = "y z"\n', tmp_path)
    assert found == {"words": {"base_lr": "lr", "lr0": "lr"}, "groups": {"a": {"x": "y z"}}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[words]\nlr = "lr0"', "missing table [groups]"),
        ("[groups]\n[words]\n[wrods]", "unknown table [wrods]"),
        ("[groups]\n[words]\nlr = 3", "[words] lr: expected a string"),
        ('words = "lr0"\n[groups]', "[words]: expected a table"),
        ('[words]\n[groups]\na = "b"', "[groups.a]: expected a table"),
        ("[words]\n[groups.a]\nb = []", "[groups.a] b: expected a string"),
        ('[groups]\n[words]\nlr = "lr0"\nepochs = "lr0"', "[words]: `lr0` is both `lr` and `epochs`"),
        ("[words]\nlr = lr0", "Invalid value (at line 2, column 6)"),
    ],
)
def test_a_wrong_table_is_reported_with_its_file(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=rf"^some\.toml: {re.escape(problem)}$"):
        read(text, tmp_path)


def test_every_model_that_is_suggested_exists() -> None:
    found = other_names.models()
    suggested = {*found["same"].values(), *(form for nearest in found["nearest"].values() for form in nearest.values())}
    names = {form.partition("(")[0] for form in suggested if "\\" not in form}
    assert [name for name in names if name and not lookup.find("model", name)] == []


def test_every_setting_belongs_to_a_statement_or_technique() -> None:
    owners = {form.partition("=")[0].partition(".")[0] for form in habits.settings()["recipe"].values()} - {"{name}"}
    assert [name for name in owners if not (own.read("statement", name) or own.read("technique", name))] == []


def test_a_word_of_recipes_is_not_another_word_for_something_else() -> None:
    words = {name for kind in KINDS for name in own.names(kind)}
    assert words & habits.names()["words"].keys() == set()


@pytest.mark.parametrize(("optimizer", "are_read"), [("adamw(lr=1e-3)", False), ("adamw(learning_rate=1e-3)", True)])
def test_names_of_other_tools_are_only_read_where_something_is_wrong(
    optimizer: str, are_read: bool, tmp_path: Path
) -> None:
    recipe = tmp_path / "dogs.leaven"
    recipe.write_text(f'data cifar10("data")\nmodel resnet18\noptimizer {optimizer}\ntrain epochs=1\n', "utf-8")
    done = subprocess.run([sys.executable, "-c", LISTING, "check", recipe], capture_output=True, text=True, check=False)
    assert done.returncode == are_read, done
    assert bool(re.search(r"other_tools\W\w+\.toml", done.stdout)) is are_read
