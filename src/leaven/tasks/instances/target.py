"""The target of instance segmentation: the objects in an image, each with a category, a box and a mask."""

from dataclasses import dataclass
from typing import Any, ClassVar

from leaven.formats.target import Kind
from leaven.tasks.detection.target import Annotations, Categories, read_names


@dataclass(frozen=True)
class MaskedCategories(Categories):
    """The categories of objects with masks."""

    task: ClassVar[str] = "instances"
    kind: ClassVar[Kind] = "instances"
    has_masks: ClassVar[bool] = True


@dataclass(frozen=True)
class MaskedAnnotations(Annotations):
    target: ClassVar[type[Categories]] = MaskedCategories


def read_target(data: Any) -> MaskedCategories:
    return MaskedCategories(read_names(data))
