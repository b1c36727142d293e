"""What a report suggests for a wrong option works."""

import re
import shlex
from pathlib import Path

import pytest

import leaven
from leaven.language.source import Source
from leaven.statements.options import Options

RECIPE = "model resnet18()\ndata digits()\n"
FIELDS = {"--set": "settings", "--with": "additions", "--model": "model", "--data": "data", "--output": "output"}


def options(command: str) -> Options:
    """The options of a command line: one flag with its value."""
    flag, value = shlex.split(command)
    return Options(**{FIELDS[flag]: (value,) if flag in ("--set", "--with") else value})


@pytest.mark.parametrize(
    "setting",
    [
        "model=resnet34",
        "data=digits()",
        "optimizer=sgd(lr=1)",
        "mixup=0.2",
        "freeze=stem",
        'output="x y"',
        "workers=4",
        "early_stop=val.loss",
        "bach=64",
        "early_stop.patience=3",
        "prune.amount=30%",
        "phase.x=1",
        "phase=2",
        "arg.lr=1",
    ],
)
def test_suggested_settings_work(setting: str) -> None:
    source = Source("recipe.leaven", RECIPE)
    (report,) = leaven.check(source, Options(settings=(setting,))).diagnostics
    assert report.fix is not None
    suggested = re.search(r"`(--.*)`", report.fix.message)
    assert suggested is not None
    assert leaven.check(source, options(suggested[1])).recipe is not None


@pytest.mark.parametrize("value", ["resnet18()", "conv(8) -> global_pool() -> linear(classes)"])
def test_a_checkpoint_reaches_a_model_that_a_let_names(value: str, tmp_path: Path) -> None:
    (tmp_path / "best.pth").touch()
    source = Source("recipe.leaven", f"let net = {value}\nmodel net\ndata digits()\n", tmp_path)
    recipe = leaven.check(source, Options(checkpoint=str(tmp_path / "best.pth"))).recipe
    assert recipe is not None
    assert recipe.model.weights is not None


def test_a_setting_reaches_an_optimizer_that_a_let_names() -> None:
    source = Source("recipe.leaven", RECIPE + "let plain = sgd(lr=0.1, momentum=0.9)\noptimizer plain\n")
    recipe = leaven.check(source, Options(settings=("optimizer.lr=0.2",))).recipe
    assert recipe is not None
    optimizer = recipe.phases[0].optimizer.invocation
    assert (optimizer.value("lr"), optimizer.value("momentum")) == (0.2, 0.9)


def test_transforms_in_a_transform_are_shown_as_the_list_they_are() -> None:
    step = "random_apply([horizontal_flip(), random_rotation(20)]) -> resize([64, 64])"
    recipe = leaven.check(Source("recipe.leaven", f"model resnet18()\ndata digits() {{ train {step} }}\n")).recipe
    assert recipe is not None
    assert leaven.check(Source("recipe.leaven", leaven.show(recipe))).recipe == recipe


def test_a_default_number_of_classes_is_not_shown_where_the_data_gives_it(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("class Net:\n    def __init__(self, width=8, classes=1000): ...\n")
    source = Source("recipe.leaven", 'import "net.py" as mine\nmodel mine.Net()\ndata digits()\n', tmp_path)
    recipe = leaven.check(source).recipe
    assert recipe is not None
    assert "1000" not in leaven.show(recipe)


def test_a_let_that_is_a_word_for_layers_is_not_an_endless_model() -> None:
    source = Source("recipe.leaven", "let head = head\nmodel head\ndata digits()\n")
    assert leaven.check(source).recipe is None
