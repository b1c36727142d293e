"""A trained model teaches: its outputs are matched as well as the labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.techniques.distillation.losses import dist_loss, dkd_loss, kd_loss
from leaven.techniques.distillation.teacher import Teacher

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from leaven.runtime.data.batches import Data


class Distill:
    """Makes up `weight` of the loss of the distance between the outputs of teacher and student."""

    def __init__(
        self,
        data: "Data",
        fabric: "Fabric",
        criterion: Callable[[Tensor, Tensor], Tensor],
        teacher: nn.Module,
        *,
        temperature: float = 4.0,
        weight: float = 0.7,
        method: Literal["kd", "dkd", "dist"] = "kd",
        alpha: float = 1.0,
        beta: float = 8.0,
        teacher_size: int | Sequence[int] | None = None,
    ) -> None:
        self.teacher = Teacher(teacher, fabric, data, teacher_size)
        self.teacher.check_classes(data.classes)
        self.criterion = criterion
        self.temperature = temperature
        self.weight = weight
        self.method = method
        self.alpha = alpha
        self.beta = beta

    def on_loss(self, loss: Tensor, images: Any, outputs: Tensor, targets: Tensor) -> Tensor:
        distance = self.distance(outputs.float(), self.teacher(images), targets)
        # taken from the loss on the targets, so that further teachers and terms keep their shares in any order
        return loss + self.weight * (distance - self.criterion(outputs, targets))

    def state_dict(self) -> dict[str, Any]:
        return self.teacher.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.teacher.load_state_dict(state)

    def distance(self, student: Tensor, teacher: Tensor, targets: Tensor) -> Tensor:
        if student.shape != teacher.shape:
            raise Failure(f"the teacher has {teacher.shape[1]} outputs, but the student has {student.shape[1]}")
        if self.method == "dkd":
            return dkd_loss(student, teacher, targets, self.temperature, self.alpha, self.beta)
        if self.method == "dist":
            return dist_loss(student, teacher, self.temperature)
        return kd_loss(student, teacher, self.temperature)
