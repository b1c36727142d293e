"""Images with a patch of another one, and labels shared by area."""

import torch
from torch import Tensor
from torchvision.transforms.v2 import CutMix


class Cutmix:
    """Pastes into every image of a batch a patch of another one, or as many batches as `probability` says."""

    def __init__(self, classes: int, alpha: float = 1.0, *, probability: float = 1.0) -> None:
        self.paste = CutMix(alpha=alpha, num_classes=classes)
        self.probability = probability

    def on_batch(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if self.probability < 1 and torch.rand(()) >= self.probability:
            return images, targets
        images, targets = self.paste(images, targets)
        return images, targets
