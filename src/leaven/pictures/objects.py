"""Objects drawn on an image: boxes with their labels, and masks. Pillow draws them, pixel by pixel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from leaven.pictures.captions import cut
from leaven.pictures.figure import COLORS

Box = tuple[float, float, float, float]  # left, top, right, bottom
_LONGEST = 40  # letters of a label
_TRIES = 12  # places for a label
_STRENGTH = 0.45  # of the colour of a mask


@dataclass(frozen=True)
class Mark:
    """An object to be drawn: its box (left, top, right, bottom), its label, the number of its colour, and its mask."""

    box: Sequence[float]
    text: str
    color: int
    mask: Any = None  # height × width, true where the object is


def draw_objects(image: Image.Image, marks: Sequence[Mark], enlarged: float = 1.0) -> Image.Image:
    """A copy of an image with objects, the last one on top. Lines and labels are `enlarged` where it will be shrunk."""
    drawn = _with_masks(image.convert("RGB"), marks)
    pen = ImageDraw.Draw(drawn)
    scale = enlarged * max(drawn.size) / 640
    thick, font = max(1, round(2 * scale)), ImageFont.load_default(max(10, 13 * scale))
    for mark in marks:
        left, top, right, bottom = (float(edge) for edge in mark.box)
        edges = (left, top, max(left, right - 1), max(top, bottom - 1))
        pen.rectangle(edges, outline=_color(mark), width=thick)
    taken: list[Box] = []
    for mark in reversed(marks):  # the last ones get the best places
        if mark.text:
            taken.append(_write(pen, mark, font, taken))
    return drawn


def _color(mark: Mark) -> str:
    return COLORS[mark.color % len(COLORS)]


def _write(pen: ImageDraw.ImageDraw, mark: Mark, font: Any, taken: Sequence[Box]) -> Box:
    """Write a label where none is yet: above the upper left corner of its box, else further and further below."""
    text = cut(mark.text, _LONGEST)
    left, top, right, bottom = pen.textbbox((0, 0), text, font=font)
    width, height = right - left + 4, bottom - top + 4
    x = max(0.0, min(float(mark.box[0]), pen.im.size[0] - width))
    first = float(mark.box[1]) - height
    heights = [y for at in range(_TRIES) if 0 <= (y := first + at * height) <= pen.im.size[1] - height]
    places = [(x, y, x + width, y + height) for y in heights] or [(x, 0.0, x + width, 0.0 + height)]
    free = [
        (left, top, right, bottom)
        for left, top, right, bottom in places
        if not any(left < box[2] and box[0] < right and top < box[3] and box[1] < bottom for box in taken)
    ]
    place = (free or places)[0]
    pen.rectangle(place, fill=_color(mark))
    pen.text((place[0] + 2 - left, place[1] + 2 - top), text, fill="white", font=font)
    return place


def _with_masks(image: Image.Image, marks: Sequence[Mark]) -> Image.Image:
    pixels = np.asarray(image, dtype=np.float32).copy()
    for mark in marks:
        if mark.mask is not None:
            color = np.array(ImageColor.getrgb(_color(mark)), dtype=np.float32)
            inside = np.asarray(mark.mask, dtype=bool)
            pixels[inside] = (1 - _STRENGTH) * pixels[inside] + _STRENGTH * color
    return Image.fromarray(pixels.round().astype(np.uint8))
