"""A map of attribution over an image: red where it supports an answer, blue where it speaks against it."""

from typing import Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from leaven.pictures.figure import BLUE, INK, RED

Box = tuple[float, float, float, float]  # left, top, right, bottom
_STRENGTH = 0.75  # of the colours where the map is largest
_LARGEST = 1024  # pixels of a side
_CLIPPED = 99  # percentile that has full colour: single pixels may be far larger than all others


def draw_map(image: Image.Image, values: Any, crop: Box) -> Image.Image:
    """A pale copy of an image with the map over the part that a model was given, which has a frame."""
    shown = image.convert("RGB")
    shown.thumbnail((_LARGEST, _LARGEST))
    scale = shown.size[0] / image.size[0], shown.size[1] / image.size[1]
    box = tuple(round(edge * scale[at % 2]) for at, edge in enumerate(crop))
    grey = np.asarray(shown.convert("L").convert("RGB"), dtype=np.float64)
    strength = np.asarray(_placed(values, shown.size, box))[..., None] * _STRENGTH
    colours = np.where(strength < 0, ImageColor.getrgb(BLUE), ImageColor.getrgb(RED))
    mixed = (1 - abs(strength)) * (0.6 * grey + 0.4 * 255) + abs(strength) * colours
    drawn = Image.fromarray(mixed.round().astype(np.uint8))
    edges = (max(0, box[0]), max(0, box[1]), min(shown.size[0], box[2]) - 1, min(shown.size[1], box[3]) - 1)
    ImageDraw.Draw(drawn).rectangle(edges, outline=INK, width=max(1, max(shown.size) // 200))
    return drawn


def _placed(values: Any, size: tuple[int, int], box: tuple[int, ...]) -> Image.Image:
    """The map from -1 to 1, in the size of the image, 0 outside of the box."""
    most = float(np.percentile(abs(values), _CLIPPED)) or float(abs(values).max()) or 1.0
    small = Image.fromarray(np.clip(values / most, -1, 1).astype(np.float32))
    placed = Image.new("F", size)
    width, height = max(1, box[2] - box[0]), max(1, box[3] - box[1])
    placed.paste(small.resize((width, height), Image.Resampling.BILINEAR), (box[0], box[1]))
    return placed
