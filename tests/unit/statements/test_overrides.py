"""An override of a part that has a statement of its own means that statement, however its arguments are written."""

from pathlib import Path

import pytest

import leaven
from leaven.language.source import Source
from leaven.rules.checker import check

RECIPE = """
import "mine.py" as mine
model resnet18()
data  digits()
"""


def shown(line: str, folder: Path) -> str:
    (folder / "mine.py").write_text("def loss(outputs, labels):\n    return outputs.sum()\n", encoding="utf-8")
    return leaven.show(Source("mine.leaven", f"{RECIPE}{line}\n", folder))


@pytest.mark.parametrize(
    "arguments", ["loss, function=mine.loss", "hook=loss, function=mine.loss", "function=mine.loss, hook=loss"]
)
def test_arguments_may_be_given_by_keyword(arguments: str, tmp_path: Path) -> None:
    assert shown(f"override {arguments}", tmp_path) == shown("override loss, mine.loss", tmp_path)
    assert "loss mine.loss()" in shown(f"override {arguments}", tmp_path)


def test_a_positional_argument_after_a_keyword_argument_is_refused(tmp_path: Path) -> None:
    shown("", tmp_path)
    source = Source("mine.leaven", f"{RECIPE}override hook=loss, mine.loss\n", tmp_path)
    assert [report.id for report in check(source).diagnostics] == ["misplaced-argument"]
