"""Parts of objects besides their boxes, such as masks: all that is done with their tensors."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from leaven import tasks
from leaven.runtime.data.places import Place
from leaven.tasks.detection.target import Categories, Object

if TYPE_CHECKING:
    from leaven.tasks.detection.metrics import MeanAP

Size = tuple[int, int]  # width and height


class Part:
    """The parts of the objects in an image. As it is, of objects that have none."""

    name: ClassVar[str] = ""  # of the tensor that torchvision's models take and return
    metrics: ClassVar[tuple[type["MeanAP"], ...]] = ()  # besides that of the boxes

    def tensors(self, objects: Sequence[Object], size: Size, scale: Size) -> dict[str, Tensor]:
        """The parts of the objects in an image, as a tensor that transforms move with it."""
        return {}

    def placed(self, output: Mapping[str, Tensor], place: Place) -> dict[str, Tensor]:
        """The parts in an output, in the pixels of the image."""
        return {}

    def measured(self, tensors: Mapping[str, Tensor], crowds: int = 0) -> dict[str, Tensor]:
        """The parts in an output or a target as metrics take them, and blank ones of so many crowds."""
        return {}

    def drawn(self, tensors: Mapping[str, Tensor]) -> Sequence[Mapping[str, Any]]:
        """The part of each object in a placed output or a target, by its name in a `Mark` and a `Detection`."""
        return [{}] * len(tensors["boxes"])


BOX_ALONE = Part()


def part_of(target: Categories) -> Part:
    """The kind of part that the objects of a task have."""
    task: Any = tasks.find(target.task)
    part: Part = task.Samples.part
    return part
