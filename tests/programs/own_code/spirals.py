"""Points on two spirals, drawn as pictures; and all that it takes to tell them apart, as people bring it along."""

import math
import random

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset


class Spirals(Dataset):
    """Pictures of 8 by 8, each with a bright spot that lies on one of two spirals."""

    classes = ("left", "right")

    def __init__(self, count: int = 200) -> None:
        self.targets = [number % 2 for number in range(count)]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        turn = number / len(self) * 2 * math.pi + math.pi * self.targets[number]
        radius = 3.5 * number / len(self)
        x, y = 3.5 + radius * math.cos(turn), 3.5 + radius * math.sin(turn)
        rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        return torch.exp(-((rows - y) ** 2 + (columns - x) ** 2))[None], self.targets[number]


class Net(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, width: int = 16, num_classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classify = nn.Linear(4 * width, num_classes)

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


class Calm(SGD):
    """Plain steps with a lot of momentum."""

    def __init__(self, params, lr: float) -> None:
        super().__init__(params, lr=lr, momentum=0.95)


def breathe(optimizer: Optimizer, period: int) -> LambdaLR:
    """Up and down, once in so many epochs."""
    return LambdaLR(optimizer, lambda epoch: 0.55 + 0.45 * math.cos(2 * math.pi * epoch / period))


def shift(image: Tensor, most: int) -> Tensor:
    """The picture, moved by a few pixels."""
    return image.roll((random.randint(-most, most), random.randint(-most, most)), dims=(1, 2))


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


def tell(phase, module: nn.Module, scores: dict[str, float]) -> None:
    """Say how large the weights have become."""
    size = sum(float(weight.detach().norm()) for weight in module.parameters())
    phase.run.print(f"the weights measure {size:.2f}")
