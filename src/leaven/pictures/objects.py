"""Objects drawn on an image: boxes with their labels, and masks. Pillow draws them, pixel by pixel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from leaven.pictures.captions import cut
from leaven.pictures.figure import COLORS

_LONGEST = 40  # letters of a label
_STRENGTH = 0.45  # of the colour of a mask


@dataclass(frozen=True)
class Mark:
    """What is drawn: a box (left, top, right, bottom), what is written on it, the number of its colour, and a mask."""

    box: Sequence[float]
    text: str
    color: int
    mask: Any = None  # height × width, true where the object is


def draw_objects(image: Image.Image, marks: Sequence[Mark]) -> Image.Image:
    """A copy of an image with objects, the last one on top."""
    drawn = _with_masks(image.convert("RGB"), marks)
    pen = ImageDraw.Draw(drawn)
    scale = max(drawn.size) / 640
    thick, font = max(1, round(2 * scale)), ImageFont.load_default(max(10, 13 * scale))
    for mark in marks:
        left, top, right, bottom = (float(edge) for edge in mark.box)
        color = COLORS[mark.color % len(COLORS)]
        pen.rectangle((left, top, max(left, right - 1), max(top, bottom - 1)), outline=color, width=thick)
        if mark.text:
            _write(pen, cut(mark.text, _LONGEST), (left, top), color, font)
    return drawn


def _write(pen: ImageDraw.ImageDraw, text: str, corner: tuple[float, float], color: str, font: Any) -> None:
    """A label above the upper left corner of a box, or inside of it where there is no room."""
    left, top, right, bottom = pen.textbbox((0, 0), text, font=font)
    width, height = right - left + 4, bottom - top + 4
    x = max(0.0, min(corner[0], pen.im.size[0] - width))
    y = corner[1] - height if corner[1] >= height else corner[1]
    pen.rectangle((x, y, x + width, y + height), fill=color)
    pen.text((x + 2 - left, y + 2 - top), text, fill="white", font=font)


def _with_masks(image: Image.Image, marks: Sequence[Mark]) -> Image.Image:
    pixels = np.asarray(image, dtype=np.float32).copy()
    for mark in marks:
        if mark.mask is not None:
            shown = COLORS[mark.color % len(COLORS)]
            color = np.array([int(shown[at : at + 2], 16) for at in (1, 3, 5)], dtype=np.float32)
            inside = np.asarray(mark.mask, dtype=bool)
            pixels[inside] = (1 - _STRENGTH) * pixels[inside] + _STRENGTH * color
    return Image.fromarray(pixels.round().astype(np.uint8))
