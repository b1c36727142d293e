"""The image in what a person gives: a path, bytes, a URL, an image, an array or a tensor.

Decides what can be read as an image, and what is reported of what can't.
"""

import io
import os
from contextlib import suppress
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from leaven.files.regular import open_regular
from leaven.runtime.data.images import convert_image, open_image
from leaven.runtime.failures import BadFile, Failure

HEIC_ENDINGS = (".heic", ".heif")
_HEIC_BRANDS = (b"ftypheic", b"ftypheix", b"ftyphevc", b"ftypmif1", b"ftypmsf1")
LARGEST_DOWNLOAD = 100 * 2**20
PATIENCE = 20  # seconds


def as_image(given: Any, mode: str) -> Image.Image:
    """The image in nearly anything, upright and in the given mode."""
    match given:
        case str() if given.lower().startswith(("http://", "https://")):
            return _opened(io.BytesIO(_fetched(given)), mode, given)
        case str() | os.PathLike():
            return _opened(os.fspath(given), mode, os.fspath(given))
        case bytes() | bytearray() | memoryview():
            return _opened(io.BytesIO(bytes(given)), mode, "the image")
        case Image.Image():
            return convert_image(ImageOps.exif_transpose(given), mode)
        case np.ndarray():
            return convert_image(_from_array(given), mode)
        case Tensor():
            return convert_image(_from_tensor(given), mode)
        case _ if hasattr(given, "read"):
            return _opened(io.BytesIO(given.read()), mode, str(getattr(given, "name", "the image")))
    raise Failure(
        f"expected an image, got {type(given).__name__}",
        "give a path, a URL, bytes, a PIL image, an array (height × width × channels) or a tensor",
    )


def _opened(source: str | io.BytesIO, mode: str, name: str) -> Image.Image:
    is_heic = _is_heic(source)
    if is_heic:
        with suppress(ImportError):  # then Pillow can't read it, which is reported
            import pillow_heif  # type: ignore[import-not-found, unused-ignore]

            pillow_heif.register_heif_opener()
    try:
        return open_image(source, mode, name)
    except BadFile as failure:
        if is_heic:
            raise _bad(name, "it is a HEIC image", "pip install pillow-heif, or convert it to JPEG") from None
        is_folder = failure.reason == "it is a folder"
        raise _bad(name, failure.reason, "give a list of files" if is_folder else "") from None


def _bad(name: str, reason: str, help_text: str) -> BadFile:
    """A bad file, where there is no recipe that could skip it."""
    failure = BadFile(name, reason)
    failure.help = help_text
    return failure


def _is_heic(source: str | io.BytesIO) -> bool:
    if isinstance(source, io.BytesIO):
        return source.getvalue()[4:12] in _HEIC_BRANDS
    try:
        with open_regular(source) as stream:
            return stream.read(12)[4:12] in _HEIC_BRANDS
    except OSError:
        return False


def _fetched(url: str) -> bytes:
    """The content at a URL."""
    try:
        with urlopen(Request(url, headers={"User-Agent": "leaven"}), timeout=PATIENCE) as answer:
            content: bytes = answer.read(LARGEST_DOWNLOAD + 1)
    except (URLError, OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise _bad(url, f"the download failed ({reason})", "without a network, give a file") from None
    if len(content) > LARGEST_DOWNLOAD:
        raise _bad(url, f"it is larger than {LARGEST_DOWNLOAD // 2**20} MB", "")
    return content


def _from_array(array: np.ndarray) -> Image.Image:
    """Height × width, or height × width × 1, 3 or 4 channels; integers, or floats from 0 to 1."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or 0 in array.shape:
        is_transposed = array.ndim == 3 and array.shape[0] in (1, 3, 4)
        help_text = "channels come last in an array: array.transpose(1, 2, 0)" if is_transposed else ""
        raise Failure(
            f"expected an image, got an array of shape {array.shape}",
            help_text or "an image is height × width, or height × width × 3",
        )
    return Image.fromarray(_eight_bits(array))


def _eight_bits(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * 255
    if array.dtype == np.uint16:
        return np.round(array / 257.0).astype(np.uint8)
    low, high = float(array.min()), float(array.max())
    if np.issubdtype(array.dtype, np.integer) and low >= 0 and high <= 255:
        return array.astype(np.uint8)
    if np.issubdtype(array.dtype, np.floating) and low >= 0 and high <= 1:
        return np.round(array * 255.0).astype(np.uint8)
    raise Failure(
        f"expected an image, got values from {low:.4g} to {high:.4g}",
        "pixels are integers from 0 to 255, or floats from 0 to 1; give prepared tensors to `.model`",
    )


def _from_tensor(tensor: Tensor) -> Image.Image:
    """Channels × height × width, or height × width."""
    values = tensor.detach().cpu()
    values = values.float() if values.dtype == torch.bfloat16 else values
    if values.ndim == 3 and values.shape[0] in (1, 3, 4):
        return _from_array(values.permute(1, 2, 0).numpy())
    if values.ndim == 2:
        return _from_array(values.numpy())
    help_text = "give several as a list: list(batch)" if values.ndim == 4 else "an image is channels × height × width"
    raise Failure(f"expected an image, got a tensor of shape {tuple(values.shape)}", help_text)
