"""A real phase to try techniques in, on a few digits; what it writes goes into the test's folder."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torchvision.transforms import v2 as T

from leaven.runtime import Count, Data, Phase, Run, digits, parse, split


def phase_in(folder: Path, *, epochs: int = 4, train: int = 32, batch: int = 8) -> Phase:
    """A phase that has begun: its first batch is at hand."""
    dataset = digits()
    indices = split(dataset, train=Count(train), val=Count(16), test=Count(16), seed=0)
    steps = T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)])
    data = Data(dataset, indices, train_transform=steps, eval_transform=steps, batch_size=batch, workers=0)
    run = Run(_started_with(folder), devices=1, seed=0, monitor="val.accuracy")
    return run.phase("train", net(), data, epochs=epochs)


def _started_with(folder: Path) -> Namespace:
    """What a program without flags would have been given; those at hand are the tests'."""
    before, sys.argv = sys.argv, ["program.py"]
    try:
        return parse(ArgumentParser(), output=str(folder / "runs"))
    finally:
        sys.argv = before


def net() -> nn.Sequential:
    """A small net with normalisation: stem, body and head."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 10),
    )


def random_batch(count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    chance = np.random.default_rng(0)
    images = torch.from_numpy(chance.random((count, 1, 8, 8), dtype=np.float32))
    return images, torch.arange(count) % 10


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def is_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Byte for byte."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
