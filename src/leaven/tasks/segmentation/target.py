"""The target of semantic segmentation: the class of every pixel.

A value is the mask of an image as it is stored; it is read when its image is. Decides what the pixels of a stored mask
mean: numbers of classes, or colours.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leaven.formats.target import BadTarget, Doubt, Kind, shown

IGNORED = 255  # what pixels without a class are in masks, by custom
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class MaskFile:
    """The mask of an image, in a file; `numbers` are pairs of a stored number and its class, where they differ."""

    file: str
    target: "MaskClasses" = field(repr=False)
    numbers: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return os.path.basename(self.file)


@dataclass(frozen=True)
class MaskClasses:
    """The classes in the order of the outputs. With `colours`, masks have these in place of the numbers of classes."""

    names: tuple[str, ...]
    colours: tuple[Colour, ...] = ()
    ignored: int = IGNORED
    task: ClassVar[str] = "segmentation"
    kind: ClassVar[Kind] = "mask"

    @property
    def brief(self) -> str:
        return f"{len(self.names)} classes"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("mask",)

    def value(self, given: Any) -> MaskFile:
        if isinstance(given, MaskFile):
            return MaskFile(given.file, self, given.numbers)
        if isinstance(given, str | os.PathLike):
            return MaskFile(os.fspath(given), self)
        raise BadTarget("wrong-label", f"has the mask {shown(given)}, which is not a file")

    def plain(self, value: MaskFile) -> MaskFile:
        return value

    def fitted(self, values: Sequence[MaskFile], train: Sequence[int]) -> tuple["MaskClasses", Sequence[MaskFile]]:
        return self, values

    def strata(self, values: Sequence[MaskFile]) -> Sequence[int]:
        return [0] * len(values)

    def stratum(self, number: int) -> str:
        return "the images"

    def unseen(self, train: Sequence[MaskFile], other: Sequence[MaskFile]) -> str:
        return ""

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self.names), "colours": [list(each) for each in self.colours], "ignored": self.ignored}


def read_target(data: Any) -> MaskClasses:
    match data:
        case {"names": [*names], "colours": [*colours], "ignored": int(ignored)} if len(colours) in (0, len(names)):
            return MaskClasses(tuple(map(str, names)), tuple(map(_colour, colours)), ignored)
    raise ValueError("the classes can't be read")


def _colour(data: Any) -> Colour:
    match data:
        case [int(red), int(green), int(blue)]:
            return red, green, blue
    raise ValueError("a colour can't be read")


@dataclass(frozen=True)
class MaskReader:
    """Masks of a data set of the user's; the classes are those that it tells."""

    names: tuple[str, ...] | None = None
    argument: ClassVar[str] = "masks"
    attribute: ClassVar[str] = "classes"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("mask",)

    def told(self, dataset: Any) -> MaskClasses | None:
        names = self.names or getattr(dataset, "classes", None)
        if isinstance(names, Sequence) and not isinstance(names, str) and len(names) > 1:
            return MaskClasses(tuple(map(str, names)))
        return None

    def read(self, given: Sequence[Any]) -> tuple[MaskClasses, list[MaskFile]]:
        raise BadTarget("no-classes", "does not say which classes its masks have", "give it an attribute `classes`")

    def doubt(self, target: MaskClasses, values: Sequence[MaskFile]) -> Doubt | None:
        return None
