"""Masks as arrays: how they are read from files or memory, moved with their images, and made into targets.

While a mask is moved, its classes count from 1 and 0 is no class: what a rotation or padding adds is 0, and so ignored.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from leaven.files.regular import open_regular
from leaven.runtime.data.images import reason
from leaven.runtime.failures import BadFile
from leaven.tasks.reports import largest_first
from leaven.tasks.segmentation.target import NO_CLASS, NUMBER_MODES, Colour, Mask, MaskFile


def read_mask(mask: Mask, size: tuple[int, int] | None = None) -> np.ndarray:
    """The class of each pixel, counted from 0, and NO_CLASS where there is none; a BadFile where it can't be read.

    `size` is the width and height of the image, which the mask must have.
    """
    stored = _stored(mask)
    own = stored.shape[1], stored.shape[0]
    if size is not None and own != size:
        raise _bad(mask, mask.target.other_size(own, size))
    if stored.ndim == 3:
        return _of_colours(stored, mask)
    return _of_numbers(stored, mask)


def _bad(mask: Mask, fault: str) -> BadFile:
    return BadFile(mask.file if isinstance(mask, MaskFile) else "", fault)


def _stored(mask: Mask) -> np.ndarray:
    """The pixels as they are stored: the numbers of a grey or palette image, or colours."""
    if not isinstance(mask, MaskFile):
        if isinstance(mask.pixels, Image.Image):
            return _pixels(mask.pixels, mask)
        stored = np.asarray(mask.pixels)
        return stored[0] if stored.ndim == 3 else stored
    try:
        with open_regular(mask.file) as stream, Image.open(stream) as image:
            return _pixels(image, mask)
    except (BadFile, MemoryError):
        raise
    except Exception as problem:  # a damaged file makes Pillow raise nearly anything
        raise BadFile(mask.file, reason(mask.file, problem)) from None


def _pixels(image: Image.Image, mask: Mask) -> np.ndarray:
    if not mask.target.colours and image.mode in NUMBER_MODES:
        return np.asarray(image)
    channels = np.asarray(image.convert("RGB"))
    if mask.target.colours:
        return channels
    if (channels != channels[..., :1]).any():
        raise _bad(mask, mask.target.no_colours)
    return channels[..., 0]


def _of_numbers(stored: np.ndarray, mask: Mask) -> np.ndarray:
    count, numbers = len(mask.target.names), mask.numbers if isinstance(mask, MaskFile) else ()
    classes = stored.astype(np.int64)
    if numbers:
        classes = np.full(stored.shape, -1, np.int64)
        for number, meant in numbers:
            classes[stored == number] = meant
    classes = np.where(stored == mask.target.ignored, NO_CLASS, classes)
    wrong = (classes != NO_CLASS) & ((classes < 0) | (classes >= count))
    if wrong.any():
        raise _bad(mask, mask.target.unknown(np.unique(stored[wrong]).tolist()))
    return classes


def _of_colours(stored: np.ndarray, mask: Mask) -> np.ndarray:
    codes = _code(stored.astype(np.int64))
    classes = np.full(codes.shape, NO_CLASS, np.int64)
    is_known = codes == _code((mask.target.ignored,) * 3)
    for number, colour in enumerate(mask.target.colours):
        classes[codes == _code(colour)] = number
        is_known |= codes == _code(colour)
    if not is_known.all():
        raise _bad(mask, mask.target.unknown([tuple(stored[~is_known][0].tolist())]))
    return classes


def _code(colours: np.ndarray | Colour) -> Any:
    """A number for each colour; the last dimension has red, green and blue."""
    colours = np.asarray(colours)
    return (colours[..., 0] << 16) + (colours[..., 1] << 8) + colours[..., 2]


# -- moved with the image


def as_moved(classes: np.ndarray) -> Any:
    """A mask that transforms move: classes from 1."""
    from torchvision import tv_tensors

    counted = np.where(classes == NO_CLASS, 0, classes + 1)
    return tv_tensors.Mask(torch.from_numpy(counted.astype(np.uint8 if counted.max(initial=0) < 256 else np.int32)))


def as_target(moved: Any) -> Tensor:
    """A mask after the transforms, as losses and metrics take it: classes from 0."""
    counted = torch.as_tensor(moved).as_subclass(Tensor).long()
    counted = counted.squeeze(0) if counted.ndim == 3 else counted
    return torch.where(counted == 0, NO_CLASS, counted - 1)


def shares(classes: np.ndarray, count: int) -> np.ndarray:
    """The share of the pixels that each class has."""
    counts = np.bincount(classes[classes >= 0].ravel(), minlength=count)
    found: np.ndarray = counts / max(1, counts.sum())
    return found


def largest_shares(classes: np.ndarray, names: Sequence[str]) -> list[str]:
    """The three classes with the largest shares, such as `road 40 %`; fewer where fewer are there."""
    largest = largest_first(names, shares(classes, len(names)), 3)
    return [f"{name} {100 * share:.0f} %" for name, share in largest if share]


def confusion(actual: np.ndarray, predicted: np.ndarray, count: int) -> np.ndarray:
    """How many pixels of each class (rows) are predicted as each class; those without a class are left out."""
    is_known = actual >= 0
    pairs = actual[is_known] * count + predicted[is_known]
    found: np.ndarray = np.bincount(pairs, minlength=count * count).reshape(count, count)
    return found


def ious(matrix: np.ndarray) -> np.ndarray:
    """The intersection over union of each class; NaN where it is neither there nor predicted."""
    both = np.diag(matrix).astype(np.float64)
    union = matrix.sum(axis=0) + matrix.sum(axis=1) - both
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = np.where(union > 0, both / union, np.nan)
    return found


def mean_iou(matrix: np.ndarray, otherwise: float) -> float:
    """The mean over the classes that are there or predicted; `otherwise` where there is none."""
    by_class = ious(matrix)
    return float(np.nanmean(by_class)) if np.isfinite(by_class).any() else otherwise
