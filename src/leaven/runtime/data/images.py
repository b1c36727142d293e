"""How an image file is opened: any format that Pillow reads, upright, in the mode that is wanted.

What happens to it afterwards is up to the transforms.
"""

import errno
import os
from contextlib import nullcontext
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from leaven.files.regular import open_regular
from leaven.runtime.failures import BadFile

NO_FILE = "there is no such file"
_ORIENTATION = 0x0112  # the EXIF tag
_NOT_THE_FILES_FAULT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def open_image(
    source: str | os.PathLike[str] | BinaryIO, mode: str = "RGB", name: str | None = None, at_least: int = 0
) -> Image.Image:
    """The image in a file, upright and in the given mode; raises BadFile where it can't be read.

    With `at_least`, a JPEG file may be decoded at a half, a quarter or an eighth of its size, as long as no edge
    becomes shorter than that.
    """
    name = name or (os.fspath(source) if isinstance(source, str | os.PathLike) else "the image")
    try:
        opened = open_regular(os.fspath(source)) if isinstance(source, str | os.PathLike) else nullcontext(source)
        with opened as stream, Image.open(stream) as image:
            if at_least:
                image.draft(None, (at_least, at_least))
            image.load()
            return convert_image(_upright(image), mode)
    except MemoryError:
        raise
    except Exception as problem:  # a damaged file makes Pillow raise nearly anything
        if isinstance(problem, OSError) and problem.errno in _NOT_THE_FILES_FAULT:
            raise
        raise BadFile(name, reason(source, problem)) from None


def convert_image(image: Image.Image, mode: str) -> Image.Image:
    """An image in another mode; 16- and 32-bit ones are scaled to 8 bits, which Pillow alone would clip at 255."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = Image.fromarray(_eight_bits(np.asarray(image), image.mode))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image if image.mode == mode else image.convert(mode)


def _upright(image: Image.Image) -> Image.Image:
    """The image rotated by its EXIF orientation."""
    try:
        is_rotated = image.getexif().get(_ORIENTATION, 1) != 1
    except Exception:  # damaged metadata does not damage the image
        return image
    return ImageOps.exif_transpose(image) if is_rotated else image


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


def reason(source: str | os.PathLike[str] | BinaryIO, problem: Exception) -> str:
    """The reason why an image can't be read, in a few words."""
    match problem:
        case FileNotFoundError():
            return NO_FILE
        case IsADirectoryError():
            return "it is a folder"
        case UnidentifiedImageError():
            is_empty = isinstance(source, str | os.PathLike) and os.path.getsize(source) == 0
            return "it is empty" if is_empty else "it is not an image"
        case _ if "truncated" in str(problem).lower():
            return "it is truncated"
        case OSError(strerror=str(text)) if text:
            return text
    return str(problem) or type(problem).__name__
