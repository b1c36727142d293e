"""A trained model teaches: its outputs are matched as well as the labels."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.runtime.freezing import freeze

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class Distill:
    """Makes up `weight` of the loss of the distance between the softened outputs of teacher and student."""

    def __init__(self, fabric: "Fabric", teacher: nn.Module, temperature: float = 4.0, weight: float = 0.7) -> None:
        freeze(teacher)
        self.teacher = fabric.to_device(teacher)
        self.temperature = temperature
        self.weight = weight

    def on_loss(self, loss: Tensor, images: Tensor, outputs: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            taught = self.teacher(images)
        distance = F.kl_div(
            F.log_softmax(outputs / self.temperature, dim=1),
            F.log_softmax(taught / self.temperature, dim=1),
            reduction="batchmean",
            log_target=True,
        )
        # softer outputs have smaller gradients, by the square of the temperature
        return (1 - self.weight) * loss + self.weight * self.temperature**2 * distance
