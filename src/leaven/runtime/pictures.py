"""How a picture is opened: any kind that Pillow knows, upright, in the channels that are wanted.

What is done to it afterwards is the steps' business.
"""

import errno
import os
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from leaven.runtime.failures import BadFile

_ORIENTATION = 0x0112  # the EXIF tag
_NOT_THE_FILES_FAULT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def open_picture(source: str | os.PathLike[str] | BinaryIO, mode: str = "RGB", name: str | None = None) -> Image.Image:
    """The picture in a file, upright and in the given mode; a BadFile where that can't be had."""
    name = name or (os.fspath(source) if isinstance(source, str | os.PathLike) else "the picture")
    try:
        with Image.open(source) as image:
            image.load()
            return picture_as(_upright(image), mode)
    except MemoryError:
        raise
    except Exception as problem:  # a damaged file makes Pillow raise nearly anything
        if isinstance(problem, OSError) and problem.errno in _NOT_THE_FILES_FAULT:
            raise
        raise BadFile(name, _reason(source, problem)) from None


def picture_as(image: Image.Image, mode: str) -> Image.Image:
    """A picture in another mode; deep ones are scaled to eight bits, which Pillow alone would cut off at 255."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = Image.fromarray(_eight_bits(np.asarray(image), image.mode))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image if image.mode == mode else image.convert(mode)


def _upright(image: Image.Image) -> Image.Image:
    """The picture as it was held, by its EXIF orientation."""
    try:
        turned = image.getexif().get(_ORIENTATION, 1) != 1
    except Exception:  # a damaged note beside the picture does not damage the picture
        return image
    return ImageOps.exif_transpose(image) if turned else image


def _eight_bits(values: np.ndarray, mode: str) -> np.ndarray:
    highest = float(values.max(initial=0))
    if mode == "F":
        top = next((top for top in (1.0, 255.0, 65535.0) if highest <= top), highest)
    elif mode == "I" and highest <= 255:
        top = 255.0
    else:
        top = max(65535.0, highest)
    scaled = np.clip(values.astype(np.float64) * (255.0 / top), 0, 255)
    return np.nan_to_num(scaled).round().astype(np.uint8)


def _reason(source: str | os.PathLike[str] | BinaryIO, problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError):
        return "there is no such file"
    if isinstance(problem, IsADirectoryError):
        return "it is a folder"
    if isinstance(problem, UnidentifiedImageError):
        is_empty = isinstance(source, str | os.PathLike) and os.path.getsize(source) == 0
        return "it is empty" if is_empty else "it is no picture"
    if "truncated" in str(problem).lower():
        return "its end is missing"
    return str(problem) or type(problem).__name__
