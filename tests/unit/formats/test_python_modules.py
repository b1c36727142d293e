"""What counts as installed, wherever it is."""

import sys
from pathlib import Path

import pytest

from leaven.formats.python_modules import is_installed, is_library


def test_packages_of_an_environment_that_this_one_builds_on_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "site-packages"
    other.mkdir(parents=True)
    (other / "dough.py").touch()
    assert not is_installed(str(other / "dough.py"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(other)])
    assert is_installed(str(other / "dough.py"))
    assert is_library("dough")


def test_a_file_beside_a_recipe_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dough.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert not is_library("dough")
    assert is_library("json")
