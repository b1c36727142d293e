"""Every block of these pages is carried out, in order, in a folder that holds the examples."""

import shutil
from pathlib import Path

import pytest
from tests.pages import blocks, follow

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs/features.md"]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_can_be_followed(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("runs", "data"))
    follow(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_nothing_on_a_page_is_left_untried(page: Path) -> None:
    known = {"leaven", "python", "console", "sh", "csv"}
    assert {block.words[0] if block.words else "" for block in blocks(page)} <= known
