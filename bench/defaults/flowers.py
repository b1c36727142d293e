"""Eight kinds of flowers, drawn on crops of two photos that come with scikit-learn."""

import colorsys
import io
import math
import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFilter
from sklearn.datasets import load_sample_image

SIDE = 256  # of the canvas; the photo is half of it


class Kind(NamedTuple):
    petals: int
    aspect: float  # of a petal: length by width
    centre: float  # as a share of the petals' length
    hue: float


KINDS = {
    "anemone": Kind(7, 1.3, 0.34, 0.78),
    "buttercup": Kind(5, 1.1, 0.25, 0.14),
    "clematis": Kind(6, 2.2, 0.20, 0.76),
    "daisy": Kind(13, 3.2, 0.42, 0.15),
    "dogwood": Kind(4, 1.2, 0.16, 0.95),
    "hibiscus": Kind(5, 1.5, 0.16, 0.97),
    "lily": Kind(6, 2.6, 0.12, 0.08),
    "sunflower": Kind(16, 2.8, 0.62, 0.12),
}


def photos(counts: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Path and content of each photo: so many of each kind in each split."""
    rng = random.Random(0)
    scenes = [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]
    for split, count in counts.items():
        for name, kind in KINDS.items():
            for at in range(count):
                file = io.BytesIO()
                _photo(kind, rng, scenes).save(file, "JPEG", quality=90)
                yield f"{split}/{name}/{at:02}.jpg", file.getvalue()


def _photo(kind: Kind, rng: random.Random, scenes: list[Image.Image]) -> Image.Image:
    image = _scene(rng, scenes)
    flower = _flower(kind, rng)
    image.paste(flower, (0, 0), flower)
    light = rng.uniform(0.6, 1.2)
    image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 2)))
    return image.point(lambda value: min(255, int(value * light))).resize((SIDE // 2, SIDE // 2))


def _scene(rng: random.Random, scenes: list[Image.Image]) -> Image.Image:
    scene, side = rng.choice(scenes), rng.randint(120, 400)
    left, top = rng.randint(0, scene.width - side), rng.randint(0, scene.height - side)
    crop = scene.crop((left, top, left + side, top + side)).resize((SIDE, SIDE))
    return crop.filter(ImageFilter.GaussianBlur(rng.uniform(0, 3)))


def _flower(kind: Kind, rng: random.Random) -> Image.Image:
    """A flower on nothing, seen from a random side, with a petal missing now and then."""
    length, x, y = rng.uniform(45, 110), SIDE * rng.uniform(0.35, 0.65), SIDE * rng.uniform(0.35, 0.65)
    turn, tilt, aspect = rng.uniform(0, 2 * math.pi), rng.uniform(0.65, 1), kind.aspect * rng.uniform(0.8, 1.25)
    hue, saturation, value = kind.hue + rng.gauss(0, 0.06), rng.uniform(0.15, 0.9), rng.uniform(0.6, 1)
    flower = Image.new("RGBA", (SIDE, SIDE))
    draw = ImageDraw.Draw(flower)
    for number in range(kind.petals):
        if rng.random() < 0.04:
            continue
        angle = turn + 2 * math.pi * number / kind.petals + rng.gauss(0, 0.06)
        width = length / aspect / 2 * rng.uniform(0.9, 1.1)
        points = [_on_petal(2 * math.pi * at / 40, length, width, angle, tilt) for at in range(40)]
        color = colorsys.hsv_to_rgb(hue % 1, saturation, value * rng.uniform(0.8, 1))
        draw.polygon([(x + dx, y + dy) for dx, dy in points], fill=_rgb(color, 255), outline=_rgb(color, 180))
    radius = length * kind.centre
    color = colorsys.hsv_to_rgb(rng.uniform(0.08, 0.16), 0.8, rng.uniform(0.3, 0.9))
    draw.ellipse((x - radius, y - radius * tilt, x + radius, y + radius * tilt), fill=_rgb(color, 255))
    return flower


def _on_petal(at: float, length: float, width: float, angle: float, tilt: float) -> tuple[float, float]:
    """A point on the edge of a petal that starts at the centre of the flower."""
    along, across = length * (0.5 + 0.5 * math.cos(at)), width * math.sin(at)
    dx = along * math.cos(angle) - across * math.sin(angle)
    return dx, tilt * (along * math.sin(angle) + across * math.cos(angle))


def _rgb(color: tuple[float, float, float], brightness: int) -> tuple[int, ...]:
    return (*(int(brightness * part) for part in color), 255)
