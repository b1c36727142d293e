"""The edits of images: a table, and the function of each row, from an image to a changed copy of it.

Images are in colour (RGB), with an alpha channel where they have one; edits of colours leave that alone. Places and
distances are shares of the image, unless the name says pixels. What an edit uncovers is black.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from PIL import Image, ImageFilter
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

from leaven.lab.edits.edit import EditKind, Parameter
from leaven.runtime.data.images import open_image
from leaven.runtime.failures import Failure

LARGEST = 50_000_000  # pixels of a padded image
_BILINEAR = InterpolationMode.BILINEAR
_GREY = (127, 127, 127)


def _colours(image: Image.Image, change: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """The image with its colours changed, and its alpha channel as it was."""
    if image.mode != "RGBA":
        return change(image)
    changed = change(image.convert("RGB"))
    changed.putalpha(image.getchannel("A"))
    return changed


def brightness(image: Image.Image, factor: float) -> Image.Image:
    return _colours(image, partial(F.adjust_brightness, brightness_factor=factor))


def contrast(image: Image.Image, factor: float) -> Image.Image:
    return _colours(image, partial(F.adjust_contrast, contrast_factor=factor))


def saturation(image: Image.Image, factor: float) -> Image.Image:
    return _colours(image, partial(F.adjust_saturation, saturation_factor=factor))


def hue(image: Image.Image, shift: float) -> Image.Image:
    return _colours(image, partial(F.adjust_hue, hue_factor=shift))


def blur(image: Image.Image, pixels: float) -> Image.Image:
    return _colours(image, lambda one: one.filter(ImageFilter.GaussianBlur(pixels)))


def sharpen(image: Image.Image, amount: float) -> Image.Image:
    return _colours(image, partial(F.adjust_sharpness, sharpness_factor=1 + amount))


def noise(image: Image.Image, deviation: float, seed: int) -> Image.Image:
    def noisy(one: Image.Image) -> Image.Image:
        pixels = np.asarray(one)
        added = np.random.default_rng(seed).normal(0, 255 * deviation, pixels.shape)
        return Image.fromarray((pixels + added).clip(0, 255).round().astype(np.uint8))

    return _colours(image, noisy)


def rotate(image: Image.Image, degrees: float) -> Image.Image:
    rotated: Image.Image = F.rotate(image, degrees, interpolation=_BILINEAR)
    return rotated


def shift(image: Image.Image, x: float, y: float) -> Image.Image:
    by = [round(x * image.width), round(y * image.height)]  # whole pixels, so that nothing is blurred
    shifted: Image.Image = F.affine(image, 0, by, 1, [0, 0], interpolation=_BILINEAR)
    return shifted


def scale(image: Image.Image, factor: float) -> Image.Image:
    scaled: Image.Image = F.affine(image, 0, [0, 0], factor, [0, 0], interpolation=_BILINEAR)
    return scaled


def crop(image: Image.Image, share: float, x: float, y: float) -> Image.Image:
    width, height = (max(1, round(share * side)) for side in image.size)
    left = min(max(0, round(x * image.width - width / 2)), image.width - width)
    top = min(max(0, round(y * image.height - height / 2)), image.height - height)
    return image.crop((left, top, left + width, top + height))


def pad(image: Image.Image, pixels: int) -> Image.Image:
    if (image.width + 2 * pixels) * (image.height + 2 * pixels) > LARGEST:
        raise Failure(f"padded by {pixels} px, the image would have more than {LARGEST:,} pixels")
    padded: Image.Image = F.pad(image, [pixels])
    return padded


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    return _colours(image, partial(F.jpeg, quality=quality))


def resolution(image: Image.Image, share: float) -> Image.Image:
    small = image.resize(tuple(max(1, round(share * side)) for side in image.size), Image.Resampling.BILINEAR)  # type: ignore[arg-type]
    return small.resize(image.size, Image.Resampling.BILINEAR)


def grey(image: Image.Image) -> Image.Image:
    return _colours(image, partial(F.rgb_to_grayscale, num_output_channels=3))


def cover(image: Image.Image, left: float, top: float, width: float, height: float) -> Image.Image:
    x, y = round(left * image.width), round(top * image.height)
    right, bottom = round((left + width) * image.width), round((top + height) * image.height)
    covered = image.copy()
    covered.paste(_GREY, (x, y, max(x, right), max(y, bottom)))
    return covered


def paste(image: Image.Image, file: str, left: float, top: float, width: float) -> Image.Image:
    patch = open_image(file, "RGBA")
    wide = max(1, round(width * image.width))
    patch = patch.resize((wide, max(1, round(patch.height * wide / patch.width))), Image.Resampling.BILINEAR)
    pasted = image.copy()
    pasted.paste(patch, (round(left * image.width), round(top * image.height)), patch)
    return pasted


# -- the table


def _jitter(name: str, neutral: float) -> Callable[[float], str]:
    """A random change of a colour that reaches as far."""
    return lambda value: f"color_jitter({name}={abs(value - neutral):.4g})"


def _zoom(factor: float) -> str:
    return f"random_affine(0, scale=[{min(1.0, factor):.4g}, {max(1.0, factor):.4g}])"


def _shift_recipe(x: float, y: float) -> str:
    return f"random_affine(0, translate=[{min(1, abs(x)):.4g}, {min(1, abs(y)):.4g}])"


def _blur_recipe(pixels: float) -> str:
    return f"gaussian_blur({2 * max(1, round(3 * pixels)) + 1}, sigma=[0.1, {max(0.1, pixels):.4g}])"


def _cover_recipe(left: float, top: float, width: float, height: float) -> str:
    return f"to_tensor() -> random_erasing(scale=[0.02, {max(0.02, min(1, width * height)):.4g}])"


_share = partial(Parameter, low=0, high=1)

KINDS = (
    EditKind(
        "brightness", "image", "Darker (below 1) or brighter.", "with brightness {factor}", brightness,
        (Parameter("factor", low=0, high=20),), neutral=1, sweep=(0, 2), recipe=_jitter("brightness", 1),
    ),
    EditKind(
        "contrast", "image", "Less (below 1) or more contrast.", "with contrast {factor}", contrast,
        (Parameter("factor", low=0, high=20),), neutral=1, sweep=(0, 2), recipe=_jitter("contrast", 1),
    ),
    EditKind(
        "saturation", "image", "Paler (below 1) or stronger colours.", "with saturation {factor}", saturation,
        (Parameter("factor", low=0, high=20),), neutral=1, sweep=(0, 2), recipe=_jitter("saturation", 1),
    ),
    EditKind(
        "hue", "image", "Other colours: a turn of the colour circle, from -0.5 to 0.5.", "with hue {shift}", hue,
        (Parameter("shift", low=-0.5, high=0.5),), neutral=0, sweep=(-0.5, 0.5), recipe=_jitter("hue", 0),
    ),
    EditKind(
        "blur", "image", "Blurred by a Gaussian of that radius.", "blurred by {pixels} px", blur,
        (Parameter("pixels", low=0, high=200),), neutral=0, sweep=(0, 10), recipe=_blur_recipe,
    ),
    EditKind(
        "sharpen", "image", "Sharper edges.", "sharpened by {amount}", sharpen,
        (Parameter("amount", low=0, high=50),), neutral=0, sweep=(0, 10),
        recipe=lambda amount: f"random_adjust_sharpness({1 + amount:.4g})",
    ),
    EditKind(
        "noise", "image", "Gaussian noise; its deviation is a share of the range of a pixel.",
        "with noise {deviation}[ and seed {seed}]", noise,
        (_share("deviation"), Parameter("seed", "count", 0, 2**32 - 1, default=0)), neutral=0, sweep=(0, 0.5),
        recipe=lambda deviation, seed: f"to_tensor() -> gaussian_noise(sigma={deviation:.4g})",
    ),
    EditKind(
        "rotate", "image", "Rotated counter-clockwise; the size stays.", "rotated by {degrees} degrees", rotate,
        (Parameter("degrees", low=-360, high=360),), neutral=0, sweep=(-180, 180), moves=True,
        recipe=lambda degrees: f"random_rotation({min(180, abs(degrees)):.4g})",
    ),
    EditKind(
        "shift", "image", "Moved to the right and down, by shares of width and height.",
        "shifted by {x}[ and down by {y}]", shift,
        (Parameter("x", low=-1, high=1), Parameter("y", low=-1, high=1, default=0.0)), neutral=0, sweep=(-0.5, 0.5),
        moves=True, recipe=_shift_recipe,
    ),
    EditKind(
        "scale", "image", "Enlarged (above 1) or shrunk, within the same frame.", "scaled by {factor}", scale,
        (Parameter("factor", low=0.05, high=20),), neutral=1, sweep=(0.25, 4), moves=True, recipe=_zoom,
    ),
    EditKind(
        "crop", "image", "Cropped to that share of width and height, around a point (0.5, 0.5: the middle).",
        "cropped to {share}[ around {x}, {y}]", crop,
        (Parameter("share", low=0.01, high=1), _share("x", default=0.5), _share("y", default=0.5)), neutral=1,
        sweep=(0.1, 1), moves=True, recipe=lambda share, x, y: _zoom(1 / share),  # as a crop is enlarged afterwards
    ),
    EditKind(
        "pad", "image", "A black border.", "padded by {pixels} px", pad,
        (Parameter("pixels", "count", 0, 4000),), neutral=0, sweep=(0, 100), moves=True,
        recipe=lambda pixels: f"pad({pixels})",
    ),
    EditKind(
        "jpeg", "image", "Compressed as JPEG of a quality from 1 to 100.", "as JPEG of quality {quality}", jpeg,
        (Parameter("quality", "count", 1, 100),), neutral=100, sweep=(1, 100),
        recipe=lambda quality: f"jpeg([{quality}, 100])",
    ),
    EditKind(
        "resolution", "image", "Fewer pixels: shrunk to that share of width and height, and enlarged again.",
        "with resolution {share}", resolution, (Parameter("share", low=0.001, high=1),), neutral=1, sweep=(0.02, 1),
    ),
    EditKind("grey", "image", "Without colour.", "in grey", grey, recipe=lambda: "random_grayscale(0.5)"),
    EditKind(
        "cover", "image", "A grey rectangle: left, top, width and height, as shares.",
        "covered at {left}, {top} by {width} x {height}", cover,
        (_share("left"), _share("top"), _share("width"), _share("height")), recipe=_cover_recipe,
    ),
    EditKind(
        "paste", "image", "Another image on top: its file, left, top and width, as shares.",
        "with {file} pasted at {left}, {top}[ as wide as {width}]", paste,
        (
            Parameter("file", "text"), _share("left", default=0.0), _share("top", default=0.0),
            Parameter("width", low=0.001, high=1, default=0.3),
        ),
    ),
)  # fmt: skip
