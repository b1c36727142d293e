"""Images with masks, which the transforms move together."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from leaven.plain.batches import Split
from leaven.plain.samples import ImageFiles, Samples, predefined_in
from leaven.sources.mask_folder import CLASS_FILES, mask_places, paired, read_classes
from leaven.tasks.segmentation.masks import as_moved, as_target
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

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


@dataclass(frozen=True)
class MaskSamples(Samples):
    """Images with masks."""

    target: Any = None  # what the masks mean

    def strata(self, indices: np.ndarray) -> np.ndarray:
        """A number for each sample: those with the same number are divided alike among the splits."""
        return np.zeros(len(indices))


class Masks:
    """Reads masks by their index in a list, as transforms move them: classes count from 1, and 0 is no class."""

    def __init__(self, files: Sequence[str], target: MaskClasses) -> None:
        self.files = [os.path.abspath(file) for file in files]
        self.target = target

    def __getitem__(self, index: int) -> Any:
        return as_moved(read_mask(self.files[index], self.target))


class MaskSplit(Split):
    """A split of images with masks."""

    def __getitem__(self, index: int) -> Any:
        image, mask = self.samples.inputs[index], self.samples.targets[index]
        if image.size != (mask.shape[-1], mask.shape[-2]):
            raise ValueError(f"a mask has the shape {tuple(mask.shape)}, but its image has the size {image.size}")
        image, mask = self.transform(image, mask)
        return image, as_target(mask)


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


def mask_folder(path: str, *, classes: Any = None, ignore: int = 255, on_bad_file: str = "stop") -> MaskSamples:
    """The images in `images/` with their masks in `masks/`, optionally inside of `train/`, `val/` and `test/`."""
    target = mask_classes(Path(path), classes, ignore)
    splits = {split: paired(*places)[0] for split, places in mask_places(Path(path)).items()}
    if on_bad_file == "skip":
        splits = {split: [pair for pair in pairs if is_usable(*pair, target)] for split, pairs in splits.items()}
    every = [pair for pairs in splits.values() for pair in pairs]
    masks = Masks([os.fspath(mask) for _, mask in every], target)
    images = ImageFiles([os.fspath(image) for image, _ in every])
    return MaskSamples(target.names, images, masks, predefined=predefined_in(splits), target=target)


def mask_classes(folder: Path, classes: Any, ignored: int) -> MaskClasses:
    """The classes in a list, or in a file: by default the one in the folder."""
    if isinstance(classes, Sequence) and not isinstance(classes, str):
        return MaskClasses(tuple(classes), (), ignored)
    file = Path(classes) if classes else next(folder / name for name in CLASS_FILES if (folder / name).is_file())
    rows = read_classes(file)
    return MaskClasses(tuple(name for name, _ in rows), tuple(colour for _, colour in rows if colour), ignored)
