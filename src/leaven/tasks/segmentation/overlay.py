"""Classes drawn over an image, in colours, with a legend below it."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from leaven.tasks.segmentation.target import Colour, MaskClasses

STRENGTH = 0.55  # of the colours over the image
_ROW = 22
_SWATCH = 14
_MARGIN = 8
_LISTED = 24


_UNMARKED = ("background", "unlabelled", "unlabeled", "other", "void", "none")  # not drawn, where it is the first class


@cache
def colours(count: int) -> tuple[Colour, ...]:
    """A colour for each class, by the palette of Pascal VOC: the first is black."""
    return tuple(_voc(number) for number in range(count))


def _voc(number: int) -> Colour:
    colour = [0, 0, 0]
    for place in range(8):
        for channel in range(3):
            colour[channel] |= ((number >> channel) & 1) << (7 - place)
        number >>= 3
    return colour[0], colour[1], colour[2]


def palette(target: MaskClasses) -> np.ndarray:
    """The colour of each class: that of the masks, where they have colours."""
    return np.array(target.colours or colours(len(target.names) + 1)[1 - unmarked(target) :], dtype=np.uint8)


def overlay(pixels: np.ndarray, classes: np.ndarray, target: MaskClasses) -> np.ndarray:
    """An image with the colours of its classes over it; background and pixels without a class are left as they are."""
    drawn = pixels.copy()
    is_known = (classes >= unmarked(target)) & (classes < len(target.names))
    over = palette(target)[np.where(is_known, classes, 0)]
    mixed = (1 - STRENGTH) * pixels.astype(np.float64) + STRENGTH * over
    drawn[is_known] = mixed[is_known].round().astype(np.uint8)
    return drawn


def unmarked(target: MaskClasses) -> int:
    """How many classes are not drawn: 1 where the first is the background."""
    return int(target.names[0].lower() in _UNMARKED)


def with_legend(image: Image.Image, entries: Sequence[tuple[str, int]], target: MaskClasses) -> Image.Image:
    """The image with the names and colours of classes below it."""
    font = ImageFont.load_default(13)
    shown = list(entries)[:_LISTED]
    widths = [_SWATCH + 3 * _MARGIN + int(font.getlength(name)) for name, _ in shown]
    width = max([image.width, *widths])
    rows: list[list[int]] = [[]]
    for at, needed in enumerate(widths):
        if rows[-1] and sum(widths[other] for other in rows[-1]) + needed > width:
            rows.append([])
        rows[-1].append(at)
    made = Image.new("RGB", (width, image.height + _ROW * len(rows)), "white")
    made.paste(image, (0, 0))
    draw, swatches = ImageDraw.Draw(made), palette(target)
    for number, row in enumerate(rows):
        left, top = _MARGIN, image.height + number * _ROW + 4
        for at in row:
            name, which = shown[at]
            red, green, blue = map(int, swatches[which])
            draw.rectangle((left, top, left + _SWATCH, top + _SWATCH), fill=(red, green, blue), outline="grey")
            draw.text((left + _SWATCH + 6, top - 1), name, fill="black", font=font)
            left += widths[at]
    return made
