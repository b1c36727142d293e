"""`import leaven`: what it says to who calls it the wrong way."""

import subprocess
import sys
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
    with pytest.raises(TypeError, match=r"leaven\.Options\(.*not dict"):
        leaven.check(tmp_path / "s.leaven", {"lr": 1})  # type: ignore[arg-type]


def test_only_what_is_public_is_listed() -> None:
    import leaven.bundle

    assert {name for name in dir(leaven) if not name.startswith("__")} == set(leaven.__all__)
    assert all(hasattr(leaven, name) for name in leaven.__all__)


def test_importing_it_loads_nothing_else() -> None:
    program = (
        "import sys, leaven; dir(leaven);"
        "sys.exit(any(n in sys.modules for n in ('torch', 'leaven.plan', 'leaven.planning', 'lark')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_plan_and_its_data_say_what_they_are(tmp_path: Path) -> None:
    recipe = "model conv(4) -> global_pool() -> linear(classes)\ndata digits()\ntrain epochs=2\n"
    (tmp_path / "s.leaven").write_text(recipe)
    assert repr(leaven.make_plan(tmp_path / "s.leaven")) == "<Plan of s: train (2 epochs)>"
    with leaven.open(tmp_path / "s.leaven") as session:
        data = "<Data: 1,437 train, 180 val, 180 test; 10 classes; batches of 32>"
        assert repr(session.data) == data
        assert repr(session) == f"<Session s: not begun; Sequential; {data}>"
        session.step(3)
        assert repr(session) == f'<Session s: phase "train", epoch 1/2, batch 3; Sequential; {data}>'
