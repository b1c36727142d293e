"""A batch as a grid of images with captions, below the stages of one of its samples."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaven.pictures.captions import wrapped
from leaven.pictures.figure import GREY, INK, drawing, png, save

ACROSS = 8
_CELL = 1.5  # inches
_LETTERS = 24  # in a line of a caption
_LINES = 5


@dataclass(frozen=True)
class Tile:
    """An image with what is written above it. `pixels` are height × width (× 3), None for what can't be shown."""

    pixels: Any
    caption: str


@dataclass(frozen=True)
class Rows:
    """Tiles under a title."""

    title: str
    tiles: Sequence[Tile]


def draw_batch(sections: Sequence[Rows], file: Path) -> None:
    """Sections of tiles, one below the other, as an image file."""
    with _drawn(sections) as figure:
        save(figure, file)


def rows_png(sections: Sequence[Rows]) -> bytes:
    """The same as the content of a PNG file."""
    with _drawn(sections) as figure:
        return png(figure)


@contextmanager
def _drawn(sections: Sequence[Rows]) -> Iterator[Any]:
    sections = [section for section in sections if section.tiles]
    lines = []  # the heights of the lines of tiles of each section, with the captions that they have
    for section in sections:
        high = [len(_caption(tile).splitlines()) for tile in section.tiles]
        highest = [max(high[at : at + ACROSS]) for at in range(0, len(high), ACROSS)]
        lines.append([_CELL * 0.92 + 0.14 * count for count in highest])
    heights = [0.4 + sum(ratios) for ratios in lines]
    with drawing(ACROSS * _CELL, sum(heights)) as figure:
        parts = figure.subfigures(len(sections), 1, height_ratios=heights, squeeze=False)[:, 0]
        for part, section, ratios in zip(parts, sections, lines, strict=True):
            part.suptitle(section.title, x=0.006, ha="left", fontweight="bold", fontsize=10)
            _draw_tiles(part, section.tiles, ratios)
        yield figure


def _caption(tile: Tile) -> str:
    return wrapped(tile.caption, _LETTERS, _LINES)


def _draw_tiles(part: Any, tiles: Sequence[Tile], ratios: Sequence[float]) -> None:
    grid = part.subplots(math.ceil(len(tiles) / ACROSS), ACROSS, squeeze=False, height_ratios=ratios).ravel()
    for axes, tile in zip(grid, tiles, strict=False):
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        axes.set_title(_caption(tile), loc="center", fontsize=7, fontweight="normal", pad=3, color=INK)
        if tile.pixels is None:
            axes.text(0.5, 0.5, "not an image", ha="center", va="center", color=GREY, fontsize=7)
        else:
            axes.imshow(tile.pixels, cmap="gray", vmin=0, vmax=255)
    for axes in grid[len(tiles) :]:
        axes.set_axis_off()
