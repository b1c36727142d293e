"""Outputs that must beat how frequent their classes are."""

from collections.abc import Callable

import torch
from torch import Tensor

from leaven.runtime.data.batches import Data
from leaven.runtime.failures import Failure


class LogitAdjustment:
    """Computes the loss of outputs to which `tau` times the logarithm of every class's share is added."""

    def __init__(self, data: Data, criterion: Callable[[Tensor, Tensor], Tensor], tau: float = 1.0) -> None:
        counts = torch.tensor(data.train.class_counts(), dtype=torch.float32)
        if not counts.any():
            raise Failure(
                "`logit_adjustment` needs to know the labels beforehand", "give the data set an attribute `targets`"
            )
        self.criterion = criterion
        self.shift = tau * torch.log(counts.clamp(min=1) / counts.sum())

    def on_loss(self, loss: Tensor, images: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
        adjusted = outputs + self.shift.to(outputs.device, outputs.dtype)
        # what other techniques have made of the loss stays in it
        return loss - self.criterion(outputs, targets) + self.criterion(adjusted, targets)
