"""`import leaven`: what it says to who calls it the wrong way."""

from pathlib import Path
from typing import Any

import pytest

import leaven


@pytest.mark.parametrize("recipe", [None, b"model resnet18()", 5, "model resnet18()\ndata digits()\n" * 1000])
@pytest.mark.parametrize("function", [leaven.check, leaven.parse, leaven.show, leaven.format])
def test_what_is_no_path_is_told_how_to_be_given(function: Any, recipe: Any) -> None:
    with pytest.raises(TypeError, match=r"path of its file.* Source\(|path of its file.*\.Source\("):
        function(recipe)


def test_options_are_told_how_to_be_given(tmp_path: Path) -> None:
    (tmp_path / "s.leaven").write_text("model resnet18()\ndata digits()\n")
    with pytest.raises(TypeError, match=r"options\.Options\(.*not dict"):
        leaven.check(tmp_path / "s.leaven", {"lr": 1})  # type: ignore[arg-type]
