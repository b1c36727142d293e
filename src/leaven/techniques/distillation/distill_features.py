"""Knowledge distillation: the features of a trained model are matched as well as the labels."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from leaven.runtime.failures import Failure
from leaven.techniques.distillation.features import FeatureHooks, Widths, layers_of, same_size
from leaven.techniques.distillation.losses import (
    attention_loss,
    contrastive_loss,
    hint_loss,
    relational_loss,
    similarity_loss,
)
from leaven.techniques.distillation.teacher import Teacher

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from leaven.runtime.data.batches import Data

Method = Literal["hint", "attention", "similarity", "relational", "contrastive"]
USUAL_WEIGHTS: dict[Method, float] = {  # by which the methods' authors, and Tian et al. 2020, compared them
    "hint": 100.0,
    "attention": 1000.0,
    "similarity": 3000.0,
    "relational": 25.0,
    "contrastive": 0.8,
}
_TEACHER = "teacher"
EMBEDDED = 128  # numbers in which contrastive embeddings are told apart, as in CRD


class DistillFeatures:
    """Adds `weight` times the distance between the features of teacher and student to the loss."""

    def __init__(
        self,
        model: nn.Module,
        data: "Data",
        fabric: "Fabric",
        teacher: nn.Module,
        *,
        method: Method = "hint",
        layers: Sequence[str] | None = None,
        teacher_layers: Sequence[str] | None = None,
        weight: float | None = None,
        temperature: float = 0.07,
        teacher_size: int | Sequence[int] | None = None,
    ) -> None:
        self.teacher = Teacher(teacher, fabric, data, teacher_size)
        self.fabric = fabric
        self.method = method
        self.weight = USUAL_WEIGHTS[method] if weight is None else weight
        self.temperature = temperature
        image = data.eval_transform(data.example) if data.eval_transform is not None else data.example
        if not isinstance(image, Tensor):
            raise Failure("features can be compared only of data that is prepared as tensors")
        image = image[None]
        placed = image.to(next(model.parameters()).device)
        ours = layers_of(model, placed, layers)
        theirs = layers_of(teacher, self.teacher.convert(fabric.to_device(image)), teacher_layers)
        pairs = self._paired(ours, theirs, layers, teacher_layers)
        self.student_taps = FeatureHooks(model, [one for one, _ in pairs], is_student=True)
        self.teacher_taps = FeatureHooks(teacher, [other for _, other in pairs], is_student=False)
        self.learnt = self._learnt([(ours[one], theirs[other]) for one, other in pairs])

    def _paired(
        self, ours: Widths, theirs: Widths, layers: Sequence[str] | None, teacher_layers: Sequence[str] | None
    ) -> list[tuple[str, str]]:
        """Which layers are compared: those that were named; else the last, and for attention the end of each stage."""
        count = min(len(ours), len(theirs))
        if layers is not None and teacher_layers is not None and len(ours) != len(theirs):
            raise Failure(
                f"{len(ours)} layers of the student can't be compared with {len(theirs)} of the teacher",
                "name as many in `layers` as in `teacher_layers`",
            )
        if layers is None and teacher_layers is None and self.method != "attention":
            count = 1
        return list(zip(list(ours)[-count:], list(theirs)[-count:], strict=True))

    def _learnt(self, widths: Sequence[tuple[int, int]]) -> nn.ModuleList:
        """The layers that bring both sides into one space, for each pair, the same in every process."""
        parts: list[nn.Module] = []
        for ours, theirs in widths:
            if self.method == "hint":
                parts.append(nn.Conv2d(ours, theirs, 1))
            if self.method == "contrastive":
                parts.append(nn.ModuleList([nn.Linear(ours, EMBEDDED), nn.Linear(theirs, EMBEDDED)]))
        learnt = nn.ModuleList(parts)
        learnt.load_state_dict(self.fabric.broadcast(learnt.state_dict()))
        self.fabric.to_device(learnt)
        return learnt

    def on_loss(self, loss: Tensor, images: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
        self.teacher(images)
        pairs = zip(self.student_taps.features(), self.teacher_taps.features(), strict=True)
        distances = [self.distance(at, *same_size(ours, theirs)) for at, (ours, theirs) in enumerate(pairs)]
        self.student_taps.empty()
        return loss + self.weight * torch.stack(distances).sum()

    def distance(self, at: int, ours: Tensor, theirs: Tensor) -> Tensor:
        """Between the features of one pair of layers."""
        match self.method:
            case "hint":
                return hint_loss(self.learnt[at](ours), theirs)
            case "attention":
                return attention_loss(ours, theirs)
            case "similarity":
                return similarity_loss(ours, theirs)
            case "relational":
                return relational_loss(ours, theirs)
            case "contrastive":
                embed_ours, embed_theirs = self.learnt[at].children()
                return contrastive_loss(
                    embed_ours(ours.mean(dim=(2, 3))), embed_theirs(theirs.mean(dim=(2, 3))), self.temperature
                )

    def on_gradients(self, model: nn.Module) -> None:
        """Average the gradients of its own layers over devices."""
        if self.fabric.world_size == 1:
            return
        for parameter in self.learnt.parameters():
            if parameter.grad is not None:
                shared = self.fabric.all_reduce(parameter.grad, reduce_op="mean")
                assert isinstance(shared, Tensor)
                parameter.grad = shared

    def at_end(self, model: nn.Module) -> None:
        """Remove its hooks."""
        self.student_taps.close()
        self.teacher_taps.close()

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its own layers (hint: 1x1 convolutions, from student to teacher width) are trained too."""
        return self.learnt.parameters()

    def state_dict(self) -> dict[str, Any]:
        return {**self.learnt.state_dict(), _TEACHER: self.teacher.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learnt.load_state_dict({name: value for name, value in state.items() if name != _TEACHER})
        self.teacher.load_state_dict(state.get(_TEACHER, {}))
