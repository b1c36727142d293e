"""What a model can be given: a path, bytes, a URL, an image, an array or a tensor, each converted to what it takes.

Decides how an input becomes the image (or array, or tensor) that the transforms were written for.
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

from leaven.formats.regular import open_regular
from leaven.formats.texts import Text, text_fault
from leaven.runtime.data.images import convert_image, open_image
from leaven.runtime.failures import BadFile, Failure

HEIC_ENDINGS = (".heic", ".heif")
_HEIC_BRANDS = (b"ftypheic", b"ftypheix", b"ftyphevc", b"ftypmif1", b"ftypmsf1")
_MODES = {"1": "L", "L": "L", "LA": "L", "I": "L", "F": "L", "I;16": "L", "RGBA": "RGBA"}
LARGEST_DOWNLOAD = 100 * 2**20
PATIENCE = 20  # seconds
LONGEST_NAME = 200  # letters of what an input is called


@dataclass(frozen=True)
class Takes:
    """What the transforms were written for: an image, an array or a tensor.

    `size` is that of the training samples where the transforms don't change it (so all had one size, or they would not
    have made a batch), in the order of its kind: width and height of an image, the shape of an array or a tensor. It
    is empty where the transforms decide the size.
    """

    kind: Literal["image", "array", "tensor", "text"] = "image"
    mode: str = "RGB"
    size: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()  # that texts were read from; of texts, one for each that is read together

    @classmethod
    def like(cls, example: Any) -> "Takes":
        """What the transforms take if they take such an example, whose content is not used."""
        match example:
            case Image.Image():
                return cls("image", _MODES.get(example.mode, "RGB"), example.size)
            case np.ndarray():
                return cls("array", "L" if example.ndim == 2 else "RGB", example.shape)
            case str():
                return cls("text", "", (1,))
            case tuple() if all(isinstance(part, str) for part in example):
                return cls("text", "", (len(example),))
            case Tensor():
                return cls("tensor", "L" if example.ndim == 2 or example.shape[0] == 1 else "RGB", tuple(example.shape))
        raise Failure(f"a bundle's model takes images, arrays, tensors or texts, not {type(example).__name__}")

    @property
    def noun(self) -> str:
        """What the model is given, in a word."""
        return "text" if self.kind == "text" else "image"

    @property
    def image_size(self) -> tuple[int, int] | None:
        """The width and height that an image must have; None where any will do."""
        match self.kind, self.size:
            case "image", (width, height):
                return width, height
            case ("array", (height, width, *_)) | ("tensor", (_, height, width)) | ("tensor", (height, width)):
                return width, height
        return None

    def to_json(self) -> dict[str, Any]:
        found = {"kind": self.kind, "mode": self.mode, "size": list(self.size)}
        return {**found, "columns": list(self.columns)} if self.columns else found

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Takes":
        match data:
            case {"kind": "image" | "array" | "tensor" | "text" as kind, "mode": str(mode), "size": list(size)}:
                columns = tuple(map(str, data.get("columns", ())))
                return cls(kind, mode, tuple(int(side) for side in size), columns)
        raise ValueError("`takes` can't be read")


def as_taken(given: Any, takes: Takes) -> Any:
    """An input as the transforms take it."""
    if takes.kind == "text":
        return as_text(given, takes.size[0])
    is_ready = {"image": Image.Image, "array": np.ndarray, "tensor": Tensor}[takes.kind]
    if takes.kind != "image" and isinstance(given, is_ready):
        return given
    image = as_image(given, takes.mode)
    size = takes.image_size
    if size is not None and image.size != size:
        image = image.resize(size, Image.Resampling.BILINEAR)
    match takes.kind:
        case "image":
            return image
        case "array":
            return np.asarray(image)
        case "tensor":
            pixels = np.atleast_3d(np.asarray(image, dtype=np.float32) / 255)
            return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def typed_example(example: Any) -> str:
    """What a person could type to try a model that takes such an example."""
    match example:
        case str():
            return '"I loved every minute"'
        case tuple():
            return '"A man sleeps." "Someone is asleep."'
    return "photo.jpg"


def as_text(given: Any, parts: int) -> Text:
    """A text, or a pair of them, of what a person gives."""
    texts = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not all(isinstance(text, str) for text in texts):
        wrong = next(text for text in texts if not isinstance(text, str))
        raise Failure(f"expected a text, got {type(wrong).__name__}", "give a string")
    if len(texts) != parts:
        has = f"{len(texts)} texts" if len(texts) > 1 else "a single text"
        help = "give a pair: (first, second)" if parts == 2 else "give one string at a time, or a list of them"
        raise Failure(f"the model takes {'pairs of texts' if parts == 2 else 'single texts'}, not {has}", help)
    found: Text = texts[0] if parts == 1 else texts
    if fault := text_fault(found):
        raise Failure(f"{name_of(given).strip() or 'an empty string'} {fault.fact}")
    return found


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


def name_of(given: Any, number: int = 0) -> str:
    """What to call an input in a report."""
    if isinstance(given, str) and ("\n" in given or len(given) > LONGEST_NAME):
        return f"“{given[:LONGEST_NAME].strip()}…”"
    if isinstance(given, list | tuple):
        return f"pair {number + 1}"
    return os.fspath(given) if isinstance(given, str | os.PathLike) else f"image {number + 1}"


def _opened(source: str | io.BytesIO, mode: str, name: str) -> Image.Image:
    is_heic = _is_heic(source)
    if is_heic:
        _register_heic()
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


def _register_heic() -> None:
    """Let Pillow read HEIC, if the package for it is installed."""
    try:
        import pillow_heif  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return
    pillow_heif.register_heif_opener()


def _fetched(url: str) -> bytes:
    """What is at a URL."""
    try:
        with urlopen(Request(url, headers={"User-Agent": "leaven"}), timeout=PATIENCE) as answer:
            content: bytes = answer.read(LARGEST_DOWNLOAD + 1)
    except (URLError, OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or problem
        help_text = "without a network, give a file"
        raise _bad(url, f"the download failed ({reason})", help_text) from None
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
