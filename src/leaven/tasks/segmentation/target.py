"""The target of semantic segmentation: the class of every pixel.

A value is the mask of an image as it is stored; it is read when its image is. Decides what the pixels of a stored mask
mean: numbers of classes, or colours.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leaven.formats.target import BadTarget, Doubt
from leaven.formats.target_kind import TargetKind
from leaven.tasks.classification.target import names_told_by

IGNORED = 255  # what pixels without a class are in masks, by custom
NUMBER_MODES = ("P", "L", "1", "I", "I;16")  # of images whose pixels are numbers, by Pillow's names
NO_CLASS = -100  # in targets: what losses and metrics ignore
Colour = tuple[int, int, int]
_SHOWN = 3


@dataclass(frozen=True)
class MaskFile:
    """The mask of an image, in a file; `numbers` are pairs of a stored number and its class, where they differ."""

    file: str
    target: "MaskClasses" = field(repr=False)
    numbers: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return os.path.basename(self.file)


@dataclass(frozen=True, eq=False)
class MaskPixels:
    """The mask of an image, in memory: an array or tensor of numbers of classes, or a Pillow image."""

    pixels: Any = field(repr=False)
    target: "MaskClasses" = field(repr=False)

    def __str__(self) -> str:
        return "its mask"


Mask = MaskFile | MaskPixels


@dataclass(frozen=True)
class MaskClasses:
    """The classes in the order of the outputs. With `colours`, masks have these in place of the numbers of classes."""

    names: tuple[str, ...]
    colours: tuple[Colour, ...] = ()
    ignored: int = IGNORED
    columns: ClassVar[tuple[str, ...]] = ("mask",)
    task: ClassVar[str] = "segmentation"
    kind: ClassVar[TargetKind] = "mask"

    @property
    def brief(self) -> str:
        return f"{len(self.names)} classes"

    def value(self, given: Any) -> "Mask":
        """A mask: the path of an image file, an array or tensor of numbers (height × width), or a Pillow image."""
        if isinstance(given, MaskFile):
            return MaskFile(given.file, self, given.numbers)
        if isinstance(given, MaskPixels):
            return MaskPixels(given.pixels, self)
        if isinstance(given, str | os.PathLike):
            return MaskFile(os.fspath(given), self)
        shape, dtype = getattr(given, "shape", None), str(getattr(given, "dtype", "something"))
        is_plane = shape is not None and (len(shape) == 2 or (len(shape) == 3 and shape[0] == 1))
        if hasattr(given, "getbands") or (is_plane and ("int" in dtype or "bool" in dtype)):
            return MaskPixels(given, self)
        kind = f"a {type(given).__name__}" if shape is None else f"an array of {dtype} and shape {tuple(shape)}"
        fact = f"has {kind} in place of its mask"
        raise BadTarget("wrong-mask", fact, "give an array of the numbers of classes, height × width, or a file")

    def plain(self, value: "Mask") -> "Mask":
        return value

    def fitted(self, values: Sequence["Mask"], train: Sequence[int]) -> tuple["MaskClasses", Sequence["Mask"]]:
        return self, values

    def strata(self, values: Sequence["Mask"]) -> Sequence[int]:
        return [0] * len(values)

    def stratum(self, number: int) -> str:
        return "the images"

    def unseen(self, train: Sequence["Mask"], other: Sequence["Mask"]) -> str:
        return ""

    # -- what is stored

    def meaning(self, stored: int | Colour) -> int | None:
        """The class that a stored number or colour means, or NO_CLASS; None where it has no meaning."""
        if isinstance(stored, tuple):
            ignored = (self.ignored,) * 3
            return self.colours.index(stored) if stored in self.colours else NO_CLASS if stored == ignored else None
        if stored == self.ignored:
            return NO_CLASS
        return stored if 0 <= stored < len(self.names) else None

    def unknown(self, stored: Sequence[int | Colour]) -> str:
        """The fault of a mask with numbers or colours that have no meaning."""
        values = ", ".join(map(str, sorted(stored)[:_SHOWN])) + ", …" * (len(stored) > _SHOWN)
        if isinstance(stored[0], tuple):
            return f"the mask has the colour {sorted(stored)[0]}, which is not that of a class"
        return f"the mask has the value {values}, but there are only {len(self.names)} classes, from 0"

    @property
    def no_colours(self) -> str:
        """The fault of a mask in colours, where masks have numbers."""
        return "the mask has colours, and it is not known which class each means"

    def other_size(self, mask: tuple[int, int], image: tuple[int, int]) -> str:
        """The fault of a mask that has another width and height than its image."""
        return f"the mask is {mask[0]}×{mask[1]} pixels, but its image is {image[0]}×{image[1]}"

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self.names), "colours": [list(each) for each in self.colours], "ignored": self.ignored}


def read_target(data: Any) -> MaskClasses:
    match data:
        case {"names": [*names], "colours": [*colours], "ignored": int(ignored)} if len(colours) in (0, len(names)):
            if all(len(colour) == 3 and all(isinstance(part, int) for part in colour) for colour in colours):
                return MaskClasses(tuple(map(str, names)), tuple(map(tuple, colours)), ignored)
    raise ValueError("the classes can't be read")


@dataclass(frozen=True)
class MaskReader:
    """Masks of a dataset of the user's; the classes are those that it tells."""

    argument: ClassVar[str] = "masks"
    attribute: ClassVar[str] = "classes"
    columns: ClassVar[tuple[str, ...]] = ("mask",)

    def told(self, dataset: Any) -> MaskClasses | None:
        names = names_told_by(dataset, self.attribute)
        return MaskClasses(tuple(map(str, names))) if names else None

    def read(self, given: Sequence[Any]) -> tuple[MaskClasses, list[Mask]]:
        raise BadTarget("no-classes", "does not say which classes its masks have", "give it an attribute `classes`")

    def doubt(self, target: MaskClasses, values: Sequence[Mask]) -> Doubt | None:
        return None
