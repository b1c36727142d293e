"""The part of an image that a model is given, drawn on the image: the rest is pale, and the part has a frame."""

from typing import Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from leaven.pictures.figure import ORANGE

_PALE = 0.65  # of the way to white
_SMALLEST = 240  # pixels of a side


def draw_crop(pixels: Any, box: tuple[float, float, float, float], seen: Any) -> np.ndarray:
    """The pixels of an image with its crop; `seen` says of each cell of a grid whether it is in it."""
    image = Image.fromarray(pixels).convert("RGB")
    enlarged = max(1, _SMALLEST // min(image.size))  # for the frame not to hide what is in it
    image = image.resize((image.width * enlarged, image.height * enlarged), Image.Resampling.NEAREST)
    cells = Image.fromarray((np.asarray(seen) * 255).astype(np.uint8))
    inside = np.asarray(cells.resize(image.size, Image.Resampling.NEAREST))[..., None] > 0
    colours = np.asarray(image, dtype=np.float64)
    pale = np.where(inside, colours, (1 - _PALE) * colours + _PALE * 255)
    drawn = Image.fromarray(pale.round().astype(np.uint8))
    left, top, right, bottom = (round(edge * enlarged) for edge in box)
    width = max(1, min(image.size) // 60)
    edges = (left, top, max(left, right - 1), max(top, bottom - 1))
    ImageDraw.Draw(drawn).rectangle(edges, outline=ImageColor.getrgb(ORANGE), width=width)
    return np.asarray(drawn)
