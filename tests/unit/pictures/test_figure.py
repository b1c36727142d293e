"""Figures in Leaven's style: they are saved atomically, and need matplotlib only when they are drawn."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from leaven.pictures.figure import DPI, CantDraw, drawing, format_of, png, save


def test_a_figure_has_the_size_that_was_asked_for_and_is_the_same_file_every_time(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        with drawing(3, 2) as figure:
            figure.subplots().plot([1, 2, 3])
            save(figure, tmp_path / name)
    assert Image.open(tmp_path / "a.png").size == (3 * DPI, 2 * DPI)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["a.png", "b.png"]


def test_a_class_may_have_any_name(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    with drawing(2, 2) as figure:
        figure.subplots().set_title(r"$x_\frac{ 犬 %d {} \n")
        assert png(figure).startswith(b"\x89PNG")
    assert not recwarn.list


@pytest.mark.parametrize("name", ["curves.pdf", "curves.SVG", "curves.jpg"])
def test_the_name_of_the_file_says_the_format(tmp_path: Path, name: str) -> None:
    with drawing(2, 2) as figure:
        save(figure, tmp_path / name)
    assert (tmp_path / name).read_bytes()[:5] in (b"%PDF-", b"<?xml", b"\xff\xd8\xff\xe0\x00")


def test_a_name_that_says_no_format_is_refused() -> None:
    with pytest.raises(CantDraw, match=r"curves.gif must end in .png, .pdf, .svg or .jpg"):
        format_of(Path("curves.gif"))


def test_what_can_not_be_drawn_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "curves.png"
    file.write_bytes(b"before")

    def half() -> None:
        with drawing(2, 2) as figure:
            figure.set_size_inches(1e6, 1e6)  # more pixels than an image can have
            save(figure, file)

    with pytest.raises(ValueError, match="too large"):
        half()
    assert [each.name for each in tmp_path.iterdir()] == ["curves.png"]
    assert file.read_bytes() == b"before"


def test_without_matplotlib_it_the_help_is_to_install_it() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from leaven.pictures.figure import *\n"
        "try:\n    with drawing(2, 2): pass\n"
        "except CantDraw as problem: print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("this needs matplotlib: pip install matplotlib\n", "")
