"""What a model may be given: a path, bytes, an address, a picture, an array or a tensor, all made into what it takes.

Decides how the basic data point becomes the picture (or array, or tensor) that the steps were written for.
"""

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from leaven.runtime.data.images import convert_image, open_image
from leaven.runtime.failures import BadFile, Failure

HEIC_ENDINGS = (".heic", ".heif")
_HEIC_BRANDS = (b"ftypheic", b"ftypheix", b"ftyphevc", b"ftypmif1", b"ftypmsf1")
_MODES = {"1": "L", "L": "L", "LA": "L", "I": "L", "F": "L", "I;16": "L", "RGBA": "RGBA"}
LARGEST_DOWNLOAD = 100 * 2**20
PATIENCE = 20  # seconds


@dataclass(frozen=True)
class Takes:
    """What the steps were written for: a picture, an array or a tensor.

    `size` is that of the items in training where the steps leave it as it is (so they were all of one size, or they
    would not have made a batch), in the order of its kind: width and height of a picture, an array's or tensor's shape.
    It is empty where the steps see to the size.
    """

    kind: Literal["picture", "array", "tensor"] = "picture"
    mode: str = "RGB"
    size: tuple[int, ...] = ()

    @classmethod
    def like(cls, example: Any) -> "Takes":
        """What the steps take if they take such an example. Its content is not looked at."""
        match example:
            case Image.Image():
                return cls("picture", _MODES.get(example.mode, "RGB"), example.size)
            case np.ndarray():
                return cls("array", "L" if example.ndim == 2 else "RGB", example.shape)
            case Tensor():
                return cls("tensor", "L" if example.ndim == 2 or example.shape[0] == 1 else "RGB", tuple(example.shape))
        raise Failure(f"a bundle can't be made for a model that takes a {type(example).__name__}")

    @property
    def picture_size(self) -> tuple[int, int] | None:
        """The width and height that a picture must have; None where any will do."""
        match self.kind, self.size:
            case "picture", (width, height):
                return width, height
            case ("array", (height, width, *_)) | ("tensor", (_, height, width)) | ("tensor", (height, width)):
                return width, height
        return None

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "mode": self.mode, "size": list(self.size)}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Takes":
        match data:
            case {"kind": "picture" | "array" | "tensor" as kind, "mode": str(mode), "size": list(size)}:
                return cls(kind, mode, tuple(int(side) for side in size))
        raise ValueError("what the model takes can't be read")


def as_taken(given: Any, takes: Takes) -> Any:
    """The basic data point as the steps take it."""
    is_ready = {"picture": Image.Image, "array": np.ndarray, "tensor": Tensor}[takes.kind]
    if takes.kind != "picture" and isinstance(given, is_ready):
        return given
    picture = as_picture(given, takes.mode)
    size = takes.picture_size
    if size is not None and picture.size != size:
        picture = picture.resize(size, Image.Resampling.BILINEAR)
    match takes.kind:
        case "picture":
            return picture
        case "array":
            return np.asarray(picture)
        case "tensor":
            pixels = np.atleast_3d(np.asarray(picture, dtype=np.float32) / 255)
            return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def as_picture(given: Any, mode: str) -> Image.Image:
    """The picture in nearly anything, upright and in the given mode."""
    match given:
        case str() if given.lower().startswith(("http://", "https://")):
            return _opened(io.BytesIO(_fetched(given)), mode, given)
        case str() | os.PathLike():
            return _opened(os.fspath(given), mode, os.fspath(given))
        case bytes() | bytearray() | memoryview():
            return _opened(io.BytesIO(bytes(given)), mode, "the picture")
        case Image.Image():
            return convert_image(ImageOps.exif_transpose(given), mode)
        case np.ndarray():
            return convert_image(_from_array(given), mode)
        case Tensor():
            return convert_image(_from_tensor(given), mode)
        case _ if hasattr(given, "read"):
            return _opened(io.BytesIO(given.read()), mode, str(getattr(given, "name", "the picture")))
    raise Failure(
        f"a {type(given).__name__} is no picture",
        "give a path, an address, bytes, a PIL image, an array (height × width × channels) or a tensor",
    )


def name_of(given: Any, number: int = 0) -> str:
    """What to call an input in a report."""
    return os.fspath(given) if isinstance(given, str | os.PathLike) else f"picture {number + 1}"


def _opened(source: str | io.BytesIO, mode: str, name: str) -> Image.Image:
    is_heic = _is_heic(source)
    if is_heic:
        _learn_heic()
    try:
        return open_image(source, mode, name)
    except BadFile as failure:
        if is_heic:
            raise _bad(name, "it is a HEIC picture", "pip install pillow-heif, or convert it to JPEG") from None
        is_folder = failure.reason == "it is a folder"
        raise _bad(name, failure.reason, "give a list of files" if is_folder else "") from None


def _bad(name: str, reason: str, help_text: str) -> BadFile:
    """A bad file, where there is no recipe whose data block could say what to do about it."""
    failure = BadFile(name, reason)
    failure.help = help_text
    return failure


def _is_heic(source: str | io.BytesIO) -> bool:
    if isinstance(source, io.BytesIO):
        return source.getvalue()[4:12] in _HEIC_BRANDS
    try:
        with open(source, "rb") as stream:
            return stream.read(12)[4:12] in _HEIC_BRANDS
    except OSError:
        return False


def _learn_heic() -> None:
    """Let Pillow read HEIC where the package for it is installed."""
    try:
        import pillow_heif  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return
    pillow_heif.register_heif_opener()


def _fetched(address: str) -> bytes:
    """What is at an address."""
    try:
        with urlopen(Request(address, headers={"User-Agent": "leaven"}), timeout=PATIENCE) as answer:
            content: bytes = answer.read(LARGEST_DOWNLOAD + 1)
    except (URLError, OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or problem
        help_text = "without network, give a file"
        raise _bad(address, f"fetching it failed ({reason})", help_text) from None
    if len(content) > LARGEST_DOWNLOAD:
        raise _bad(address, f"it is larger than {LARGEST_DOWNLOAD // 2**20} MB", "")
    return content


def _from_array(array: np.ndarray) -> Image.Image:
    """Height × width, or height × width × 1, 3 or 4 channels; whole numbers, or floats from 0 to 1."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or 0 in array.shape:
        shape = "×".join(map(str, array.shape)) or "a number"
        turned = array.ndim == 3 and array.shape[0] in (1, 3, 4)
        help_text = "channels come last in an array: array.transpose(1, 2, 0)" if turned else ""
        raise Failure(
            f"an array of {shape} is no picture", help_text or "a picture is height × width, or height × width × 3"
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
        f"numbers from {low:.4g} to {high:.4g} are no picture",
        "a picture's numbers are whole, from 0 to 255, or floats from 0 to 1; prepared tensors go to `.model`",
    )


def _from_tensor(tensor: Tensor) -> Image.Image:
    """Channels × height × width, or height × width."""
    values = tensor.detach().cpu()
    values = values.float() if values.dtype == torch.bfloat16 else values
    if values.ndim == 3 and values.shape[0] in (1, 3, 4):
        return _from_array(values.permute(1, 2, 0).numpy())
    if values.ndim == 2:
        return _from_array(values.numpy())
    shape = "×".join(map(str, values.shape)) or "a number"
    help_text = "give several as a list: list(batch)" if values.ndim == 4 else "a picture is channels × height × width"
    raise Failure(f"a tensor of {shape} is no picture", help_text)
