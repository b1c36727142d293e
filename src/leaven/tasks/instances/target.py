"""The target of instance segmentation: the objects in an image, each with a category, a box and a mask."""

from dataclasses import dataclass
from typing import Any, ClassVar

from leaven.formats.target import BadTarget
from leaven.formats.target_kind import TargetKind
from leaven.tasks.detection.target import Annotations, Categories, Objects, read_names


@dataclass(frozen=True)
class MaskedCategories(Categories):
    """The categories of objects with masks."""

    task: ClassVar[str] = "instances"
    kind: ClassVar[TargetKind] = "instances"
    part: ClassVar[str] = "mask"
    parts: ClassVar[str] = "masks"

    def value(self, given: Any) -> Objects:
        objects = super().value(given)
        if any(one.part is None and not one.is_crowd for one in objects.each):
            help = "give `masks` beside `boxes` and `labels`, or use a detector without masks"
            raise BadTarget("wrong-annotation", "has an object without a mask", help)
        return objects


@dataclass(frozen=True)
class MaskedAnnotations(Annotations):
    target: ClassVar[type[Categories]] = MaskedCategories


def read_target(data: Any) -> MaskedCategories:
    return MaskedCategories(read_names(data))
