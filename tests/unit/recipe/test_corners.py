"""Corners that the fuzzer found: each once ended in an exception, a wrong report or a recipe that `show` changed."""

from pathlib import Path

import pytest

import leaven
from leaven.language.source import Source
from leaven.rules.checker import Checked
from leaven.statements.options import Options

HEAD = "model resnet18()\ndata digits()\n"


def check(text: str, folder: Path = Path(), options: Options | None = None) -> Checked:
    checked = leaven.check(Source("recipe.leaven", text, folder), options)
    if checked.recipe is not None:
        shown = leaven.check(Source("recipe.leaven", leaven.show(checked.recipe), folder))
        assert shown.recipe == checked.recipe, shown.diagnostics
    return checked


def ids(text: str, folder: Path = Path(), options: Options | None = None) -> list[str]:
    return [report.id for report in check(text, folder, options).diagnostics if report.is_error]


def test_a_transform_needs_no_parentheses() -> None:
    assert ids("model resnet18()\ndata digits() { eval rgb -> resize(32); train horizontal_flip }\n") == []
    assert ids("model resnet18()\ndata digits() { train no_such_transform }\n") == ["unknown-name"]


@pytest.mark.parametrize("word", ["accuracy", "adamw", "cosine", "cross_entropy", "csv", "shuffled"])
def test_a_name_of_the_recipe_does_not_change_a_default(word: str) -> None:
    plain, named = check(HEAD), check(f"let {word} = 3\n{HEAD}")
    assert named.recipe == plain.recipe
    assert ids(f"let {word}\n{HEAD}") == ["unexpected-token"]


def test_one_place_is_not_logged_to_twice() -> None:
    assert ids(HEAD + "log csv(), csv()\n") == ["repeated-statement"]
    assert ids(HEAD + "log tensorboard()\nlog csv(), tensorboard()\n") == ["repeated-statement"]
    assert ids(HEAD + "log tensorboard(), csv()\n") == []


@pytest.mark.parametrize(
    "change",
    ["change freeze, x=1", "change data { change train, size=64 }", 'change phase, "a", x=1', "change mixup, x=1"],
)
def test_a_change_may_name_an_argument_that_nothing_takes(change: str) -> None:
    text = "model resnet18()\ndata digits() { train rgb() -> resize(32) }\nfreeze stem\nmixup 0.2\n"
    assert check(f'{text}phase "a", epochs=1 {{}}\n{change}').recipe is None


@pytest.mark.parametrize("path", ["x" * 5000, "\0", "\udc80", "a/" * 3000, "recipe.leaven/x"])
def test_a_path_that_no_system_takes_is_a_missing_file(path: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.leaven").write_text("")
    assert ids(f'model resnet18(weights="{path}")\ndata digits()\n', tmp_path) == ["missing-file"]
    assert ids(f'model resnet18()\ndata folder("{path}")\n', tmp_path) == ["missing-file"]
    assert ids(f'import "{path}" as mine\n{HEAD}', tmp_path) == ["missing-file"]
    assert ids(f'extends "{path}"\n{HEAD}', tmp_path) == ["missing-file"]


def test_a_table_may_have_any_separator(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("image;label\na;b\nc;d\n")
    (tmp_path / "a").touch()
    recipe = 'model resnet18()\ndata csv("table.csv", image="image", label="label", separator="{}")'
    assert ids(recipe.format(";"), tmp_path) == []
    assert ids(recipe.format("ab"), tmp_path) == ["missing-file"]
    (tmp_path / "table.csv").write_bytes(b"image,label\na," + b"x" * 200_000)
    assert ids(recipe.format(","), tmp_path) == ["wrong-format"]


def test_an_argument_without_a_default_may_be_anywhere(tmp_path: Path) -> None:
    text = """\
arg photos: path
arg size: int
arg channels_out: int
arg how: choice["still", "train"]
model resnet18()
data folder(photos) { train grayscale(num_output_channels=channels_out) -> random_resized_crop(size) }
phase "only", epochs=size { freeze stem, norms=how }
"""
    assert ids(text, tmp_path) == []


def test_a_calculation_with_an_argument_without_a_default_is_kept() -> None:
    recipe = (
        "arg size: int\nlet sides = [size - 1, -(size * 2)]\nmodel resnet18()\ndata digits() {{ train resize({}) }}"
    )
    for size in ("[size, size + 1]", "[size * 2 - 1, 3]", "[size / (classes + 1), size]", "sides"):
        checked = check(recipe.format(size))
        assert checked.recipe is not None
        shown = leaven.show(checked.recipe)
        assert "[size, size]" not in shown
    assert "Resize([size - 1, -(size * 2)]" in shown


def test_an_argument_may_default_to_another_of_its_type() -> None:
    assert check("arg a: int = 3\narg b: float = a\ntrain batch=a, clip=b\n" + HEAD).diagnostics == ()
    assert ids('arg a: text = "x"\narg b: int = a\ntrain batch=b\n' + HEAD) == ["wrong-type"]


@pytest.mark.parametrize("text", ["\\u0001", "a\u0001b", "\u2028", "\x7f", '\\"', "\\\\", "\\n\\t", "\U0001f33e"])
def test_a_text_is_shown_as_it_can_be_read(text: str) -> None:
    if "\\u" in text:
        assert ids(f'{HEAD}output "{text}"') == ["unknown-escape"]
    else:
        assert ids(f'{HEAD}output "{text}"') == []


@pytest.mark.parametrize("number", ["1e308", "9" * 30, "999999999999999999 * 999999999999999999"])
def test_a_number_may_be_very_large(number: str) -> None:
    assert ids(f"{HEAD}train batch={number}") == []


@pytest.mark.parametrize("number", ["1e400", "1e308 * 10", "-1e308 - 1e308", "1e308 * 1e308 epochs"])
def test_but_not_endless(number: str) -> None:
    assert ids(f"{HEAD}train seed={number}") == ["too-large"]


def test_the_block_of_a_change_that_can_not_be_read() -> None:
    assert "missing-comma" in ids('model resnet18()\ndata digits()\noptimizer sgd { change "" 1 { group } }\n')


def test_missing_data_is_not_the_current_folder(tmp_path: Path) -> None:
    assert ids(HEAD, tmp_path, Options(data="")) == ["missing-value"]


def test_techniques_that_exclude_each_other_are_reported_once_for_each_that_is_too_much() -> None:
    assert ids(HEAD + "ema 0.99\nswa 50%\n") == ["incompatible-techniques"]


def test_how_a_choice_is_spaced_does_not_matter() -> None:
    text = "model resnet18()\ndata digits()\narg o: choice[a, 3 %] = a\n"
    spaced, close = (leaven.check(Source("recipe.leaven", one)).recipe for one in (text, text.replace("3 %", "3%")))
    assert spaced is not None
    assert close is not None
    assert spaced.args == close.args
