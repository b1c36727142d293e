"""Blends of two images, and of their labels."""

import torch
from torch import Tensor
from torchvision.transforms.v2 import MixUp


class Mixup:
    """Blends every batch with itself in another order, or as many batches as `probability` says."""

    def __init__(self, outputs: int, alpha: float = 0.2, *, probability: float = 1.0) -> None:
        self.blend = MixUp(alpha=alpha, num_classes=outputs)
        self.probability = probability

    def on_batch(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if self.probability < 1 and torch.rand(()) >= self.probability:
            return images, targets
        images, targets = self.blend(images, targets)
        return images, targets
