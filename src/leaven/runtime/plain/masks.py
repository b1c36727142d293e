"""Images with masks, which the transforms move together."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps
from torch import nn

from leaven.runtime.plain.datasets import ImageFiles, Samples, predefined_in
from leaven.sources.mask_folder import CLASS_FILES, mask_places, paired, read_classes
from leaven.tasks.segmentation.target import NO_CLASS, Colour


class MaskClasses(NamedTuple):
    """The classes of pixels. With `colours`, masks have these in place of the numbers of classes."""

    names: tuple[str, ...]
    colours: tuple[Colour, ...]
    ignored: int

    def meaning(self, stored: int) -> int:
        """The class that a number means, or a colour as one number; NO_CLASS for pixels that are ignored."""
        known = [(red << 16) + (green << 8) + blue for red, green, blue in self.colours] or list(range(len(self.names)))
        if stored in known:
            return known.index(stored) if self.colours or stored != self.ignored else NO_CLASS
        if stored != self.ignored * (0x10101 if self.colours else 1):
            raise ValueError(f"the mask has {stored:#x} in a pixel, which is not a class")
        return NO_CLASS

    def fitted(self, masks: Any, train: Sequence[int]) -> tuple["MaskClasses", Any]:
        return self, masks

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class Masks:
    """Reads masks by their index in a list, as transforms move them: classes count from 1, and 0 is no class."""

    def __init__(self, files: Sequence[str], target: MaskClasses) -> None:
        self.files = files  #: if not user_code
        self.files = [os.path.abspath(file) for file in files]  #: if user_code
        self.target = target

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return as_moved(read_mask(self.files[index], self.target))


def read_mask(file: str, target: MaskClasses) -> np.ndarray:
    """The class of each pixel, or NO_CLASS."""
    with Image.open(file) as image:
        is_number = image.mode in ("P", "L", "1", "I", "I;16") and not target.colours
        stored = np.asarray(image if is_number else image.convert("RGB")).astype(np.int64)
    if target.colours:
        stored = stored @ np.array([1 << 16, 1 << 8, 1])
    elif stored.ndim == 3:
        if (stored != stored[..., :1]).any():
            raise ValueError(f"{file} has colours, and it is not known which class each means")
        stored = stored[..., 0]
    numbers, where = np.unique(stored, return_inverse=True)
    return np.array([target.meaning(number) for number in numbers.tolist()])[where].reshape(stored.shape)


def is_usable(image: str, mask: str, target: MaskClasses) -> bool:
    """Whether a mask can be read, and has the size of its image."""
    try:
        with Image.open(image) as opened:
            size = ImageOps.exif_transpose(opened).size
    except Exception:  # it is skipped when it is read
        size = None
    try:
        shape = read_mask(mask, target).shape
    except Exception:  # a damaged file makes Pillow raise nearly anything
        return False
    return size is None or shape == size[::-1]


def mask_folder(
    path: str,
    *,
    classes: Any = None,
    ignore: int = 255,
    on_bad_file: str = "stop",  #: if skip
) -> Samples:
    """The images in `images/` with their masks in `masks/`, optionally inside of `train/`, `val/` and `test/`."""
    folder = Path(path)
    target = MaskClasses(tuple(classes), (), ignore)  #: if listed_classes
    file = Path(classes) if classes else next(folder / name for name in CLASS_FILES if (folder / name).is_file())  #: if not listed_classes
    rows = read_classes(file)  #: if not listed_classes
    target = MaskClasses(tuple(name for name, _ in rows), tuple(colour for _, colour in rows if colour), ignore)  #: if not listed_classes
    splits = {split: paired(*places)[0] for split, places in mask_places(folder).items()}
    splits = {split: [pair for pair in pairs if is_usable(*pair, target)] for split, pairs in splits.items()}  #: if skip
    every = [pair for pairs in splits.values() for pair in pairs]
    masks = Masks([os.fspath(mask) for _, mask in every], target)
    return Samples(target.names, ImageFiles([image for image, _ in every]), masks, predefined_in(splits), target)


def fit_head(model: nn.Module, classes: int) -> None:
    """Give a model outputs for these classes."""
    add_decoder(model, classes)  #: if decoder
    replace_classifiers(model, classes)  #: if not decoder
