"""A grid of images with captions of any length, in any script."""

from pathlib import Path

import numpy as np
from PIL import Image

from leaven.pictures.batch import Rows, Tile, draw_batch
from leaven.pictures.captions import columns, cut, wrapped

GREY = np.full((4, 6), 128, dtype=np.uint8)


def test_all_tiles_are_drawn(tmp_path: Path) -> None:
    tiles = [Tile(GREY, "a$b_c^{ 犬 \x1b"), Tile(None, "x" * 500), *[Tile(GREY, "") for _ in range(20)]]
    draw_batch([Rows("one", tiles), Rows("none", []), Rows("two", tiles[:1])], tmp_path / "a.png")
    grey = np.asarray(Image.open(tmp_path / "a.png").convert("L")) == 128
    assert grey.sum() > 22 * 100 * 60


def test_captions_are_cut_to_the_room() -> None:
    assert cut("short", 5) == "short"
    assert cut("a long name", 6) == "a lon…"
    assert cut("犬犬犬犬", 6) == "犬犬…"
    assert cut("a\nb\x1b[2J", 9) == "a�b�[2J"


def test_captions_are_broken_at_spaces_and_after_brackets() -> None:
    assert wrapped("random_rotation(degrees=15)\n64×64", 20, 4) == "random_rotation(\ndegrees=15)\n64×64"
    assert wrapped("one two three four", 9, 2) == "one two\nthree …"
    assert all(columns(line) <= 12 for line in wrapped("犬 " * 30 + "x" * 40, 12, 3).splitlines())
