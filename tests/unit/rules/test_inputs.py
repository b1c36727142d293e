"""A head that is kept from a bundle: its outputs are the classes of the data."""

from pathlib import Path

import pytest
from tests.unit.rules.test_teachers import DIGITS, told, write_bundle

import leaven

MODEL = 'model resnet18(weights="t.bundle", head=keep)\ndata digits() { eval resize(32) }\n'


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (DIGITS, []),
        (
            [*DIGITS[:4], "5", "4", *DIGITS[6:]],
            [("class-names", "output 5 of `t.bundle` is `5`, but class 5 of the data is `4`")],
        ),
    ],
)
def test_classes_in_another_order_are_refused(
    tmp_path: Path, classes: list[str], expected: list[tuple[str, str]]
) -> None:
    write_bundle(tmp_path / "t.bundle", classes)
    (tmp_path / "r.leaven").write_text(MODEL)
    assert told(leaven.check(tmp_path / "r.leaven")) == expected
