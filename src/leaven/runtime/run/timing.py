"""How long training steps take on this machine: a few forward and backward passes, on random images of the real shape.

A copy of the model runs: the model and the random generators are as before. The optimizer's part of a step is left
out: it depends on none of the settings that are measured.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree

from leaven.runtime.data.batches import IndexedSplit, Split
from leaven.runtime.data.model_inputs import changed
from leaven.runtime.data.samples import collate
from leaven.runtime.seeding import generator, generators_kept

Step = Callable[[], object]
Name = TypeVar("Name")
_NOT_COUNTED = 2  # of each: the first ones take longer
_FEWEST = 2  # rounds
_MOST = 50
_ENOUGH = 2.0  # seconds


def random_images(split: Split, size: int, device: torch.device) -> Any:
    """A batch of noise, of the shape and type that the transforms of a split lead to; of texts, the longest ones."""
    with generators_kept():
        if isinstance(split, IndexedSplit) and split.has_lengths:
            key = split.keys(0, shuffle=False)[0]
            longest, _ = next(split.read([replace(key, positions=range(size), indices=np.resize(key.indices, size))]))
            return changed(longest, lambda tensor: tensor.to(device))
        sample = split.drawn(0)
        assert sample is not None, "an epoch has samples"
        image: Tensor = collate([sample.prepared(split.transform)])
    noise = torch.randn((size, *image.shape[1:]), generator=generator(0))
    return noise.to(device, image.dtype)


def training_step(model: Callable[[Any], Any], parameters: list[nn.Parameter], inputs: Any, precision: Any) -> Step:
    """A forward and a backward pass at one of Fabric's precisions, which leave the gradients alone."""

    def step() -> None:
        with precision.forward_context():
            outputs = model(inputs)
        tensors = [each for each in _pytree.tree_leaves(outputs) if isinstance(each, Tensor) and each.requires_grad]
        if tensors:
            loss = torch.stack([each.float().mean() for each in tensors]).sum()
            torch.autograd.grad(loss, parameters, allow_unused=True)

    return step


def seconds_of(
    steps: Mapping[Name, Step], device: torch.device, before_each: Step = lambda: None, enough: float = _ENOUGH
) -> dict[Name, float]:
    """The median time of each step, taken in turns: what else the machine does slows all of them."""
    times: dict[Name, list[float]] = {name: [] for name in steps}
    for _ in range(_NOT_COUNTED):
        for step in steps.values():
            before_each()
            step()
    began = time.perf_counter()
    for done in range(_MOST):
        if done >= _FEWEST and time.perf_counter() - began > enough:
            break
        for name, step in steps.items():
            before_each()
            times[name].append(seconds(step, device))
    return {name: median(found) for name, found in times.items()}


def seconds(step: Step, device: torch.device) -> float:
    _wait_for(device)
    began = time.perf_counter()
    step()
    _wait_for(device)
    return time.perf_counter() - began


def _wait_for(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
