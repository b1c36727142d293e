"""Every block of these pages is carried out, in order, in a folder that holds the examples."""

import os
import pty
import shutil
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pages import blocks, carry_out, follow, matches

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
DEMO = EXAMPLES / "demo.py"
PAGES = [
    ROOT / "README.md",
    ROOT / "docs/features.md",
    ROOT / "docs/running.md",
    ROOT / "docs/jobs.md",
    ROOT / "docs/tasks.md",
    ROOT / "docs/lab.md",
    ROOT / "docs/custom_components.md",
    *sorted(ROOT.glob("docs/tutorials/*.md")),
]
NUMBER_OF_PROMISES = 18

SHORT = ("docs/custom_components.md",)  # `make test` follows this one only


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A checkout, as far as the pages need it."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("runs", "data"))
    carry_out("leaven check examples/quickstart.leaven", tmp_path)  # the first time, it tells that it reads libraries
    (tmp_path / "leaven.toml").write_text(f'[jobs]\nfolder = "{tmp_path}/jobs"\n', encoding="utf-8")
    yield tmp_path
    if (tmp_path / "jobs").is_dir():
        carry_out("leaven coordinator stop", tmp_path)


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (name(page) not in SHORT), id=name(page)) for page in PAGES]
)
def test_a_page_can_be_followed(page: Path, checkout: Path) -> None:
    follow(page, checkout)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_nothing_on_a_page_is_left_untried(page: Path) -> None:
    known = {"leaven", "python", "checks", "console", "sh"}
    assert {block.words[0] if block.words else "" for block in blocks(page)} <= known


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [
        ("all 1/4  train.loss 0.8888  val.accuracy 0.9167  4.8 s", True),
        ("all 1/4    train.loss 0.9999  val.accuracy 0.8167  99.0 s", True),
        ("all 1/4  train.loss 0.8888  val.accuracy 0.4167  4.8 s", False),
        ("all 2/4  train.loss 0.8888  val.accuracy 0.9167  4.8 s", False),
        ("all 1/4  …  val.accuracy 0.9167  4.8 s", True),
        ("all 1/4  train.loss 0.8888  val.accuracy 0.9167  4.8 m", False),
    ],
)
def test_scores_on_a_page_may_differ_a_little_and_nothing_else(shown: str, is_right: bool) -> None:
    said = "run runs/2026-01-01_10-00-00\nall 1/4  train.loss 0.8888  val.accuracy 0.9167  4.8 s\n"
    assert matches(["run runs/2025-02-02_11-00-00", shown], said) == is_right
    assert not matches(["…", "sgd(lr=0.01)"], "sgd(lr=0.1)\n")


def test_every_promise_has_a_command() -> None:
    page = (ROOT / "docs/features.md").read_text(encoding="utf-8")
    sections = page.split("\n## ")[1:]
    assert [section.partition(".")[0] for section in sections] == [str(n + 1) for n in range(NUMBER_OF_PROMISES)]
    assert all("```console\n$ " in section for section in sections)


def test_the_readme_begins_with_the_quickstart() -> None:
    recipe = next(block for block in blocks(ROOT / "README.md") if block.words == ("leaven",))
    assert recipe.text == (EXAMPLES / "quickstart.leaven").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_terminal_shows_a_bar_for_every_epoch(checkout: Path) -> None:
    """By the command as a user starts it, not by the server of `pages.py`."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (24, 100))
    command = [sys.executable, "-m", "leaven", "run", "examples/quickstart.leaven", "--quick"]
    process = subprocess.Popen(command, cwd=checkout, stdout=its, stderr=its, env=os.environ | {"OMP_NUM_THREADS": "1"})
    os.close(its)
    said = b""
    while chunk := _read(ours):
        said += chunk
    assert process.wait() == 0, said.decode()
    assert "samples/s" in said.decode()
    assert "head 1/1 training" in said.decode()
    assert "head 1/1 validation" in said.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that nobody writes any more
        return b""
