"""A small net and its parts, as people bring them along."""

import random

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F


class Net(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classify = nn.Linear(4 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.classify(self.features(images).flatten(1))


class Smooth:
    """Activations without a corner: every ReLU becomes a softplus."""

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def on_model(self, model: nn.Module) -> None:
        for module in list(model.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.ReLU):
                    setattr(module, name, nn.Softplus(self.beta))


def shift(image: Image.Image, most: int) -> Image.Image:
    """The picture, moved by a few pixels."""
    right, down = random.randint(-most, most), random.randint(-most, most)
    return Image.fromarray(np.roll(np.asarray(image), (down, right), axis=(0, 1)))


def poly_loss(outputs: Tensor, labels: Tensor, epsilon: float = 1.0) -> Tensor:
    """Cross entropy with a first polynomial term (Leng et al., 2022)."""
    right = F.softmax(outputs, dim=1).gather(1, labels[:, None]).squeeze(1)
    return (F.cross_entropy(outputs, labels, reduction="none") + epsilon * (1 - right)).mean()


def surprise(outputs: Tensor, labels: Tensor) -> Tensor:
    """How many bits the labels come as a surprise."""
    return F.cross_entropy(outputs, labels) / torch.log(torch.tensor(2.0))


def train_step(model: nn.Module, batch: tuple[Tensor, Tensor], criterion) -> Tensor:
    """The loss of a batch and of its mirror image in brightness."""
    images, labels = batch
    return criterion(model(images), labels) + 0.1 * criterion(model(-images), labels)
