"""`leaven why` as a user types it."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from tests.unit.bundle.conftest import save_colours

from leaven.cli import why
from leaven.cli.main import leaven
from leaven.lab import attribution


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_colours(tmp_path / "colours.bundle")
    pixels = np.full((40, 40, 3), (0, 0, 200), dtype=np.uint8)
    pixels[4:36, 4:36] = (230, 40, 20)
    Image.fromarray(pixels).save("photo.png")
    return tmp_path


def typed(*words: str) -> Result:
    result = CliRunner().invoke(leaven, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_the_methods_are_those_of_the_lab() -> None:
    assert why.METHODS == attribution.METHODS


def test_a_picture_is_written() -> None:
    result = typed("why", "colours.bundle", "photo.png", "--method", "occlusion")
    assert result.exit_code == 0
    assert result.stdout.startswith("colours.bundle: red (score ")
    assert Image.open("why.png").size == (40, 40)
    typed("why", "colours.bundle", "photo.png", "--method", "occlusion", "-o", "other.png")
    assert Image.open("other.png").format == "PNG"


def test_as_json_of_a_target(folder: Path) -> None:
    words = ("why", "colours.bundle", "photo.png", "--target", "blue", "--method", "occlusion", "--json")
    told = json.loads(typed(*words).stdout)
    assert (told["target"], told["size"]) == ("blue", [40, 40])
    assert not (folder / "why.png").exists()


def test_problems_are_told_in_a_line() -> None:
    result = typed("why", "colours.bundle", "photo.png", "--target", "bleu", "--method", "occlusion")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-2:] == ["error: the model has no output named bleu", "help: it has blue"]
    assert typed("why", "colours.bundle", "photo.png", "--method", "occlusion", "-o", "x.gif").exit_code == 2
