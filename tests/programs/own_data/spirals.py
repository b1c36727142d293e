"""Points on two spirals, drawn as pictures; and how to learn them."""

import math

import torch
from torch import Tensor, nn
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


class Perceptron(nn.Module):
    """One hidden layer."""

    def __init__(self, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(64, hidden)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.out(self.drop(torch.tanh(self.hidden(images.flatten(1)))))


class Calm(SGD):
    """Plain steps with a lot of momentum."""

    def __init__(self, params, lr: float) -> None:
        super().__init__(params, lr=lr, momentum=0.95)


def breathe(optimizer: Optimizer, period: int) -> LambdaLR:
    """Up and down, once in so many epochs."""
    return LambdaLR(optimizer, lambda epoch: 0.55 + 0.45 * math.cos(2 * math.pi * epoch / period))


def tell(phase, module: nn.Module, scores: dict[str, float]) -> None:
    """Say how large the weights have become."""
    size = sum(float(weight.detach().norm()) for weight in module.parameters())
    phase.run.print(f"the weights measure {size:.2f}")
