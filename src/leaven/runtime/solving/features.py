"""What the head of a model gets for each sample of a split, computed once and kept in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.formats.target import Target
from leaven.runtime.data.batches import Split
from leaven.runtime.failures import Failure
from leaven.runtime.model.modes import evaluating
from leaven.runtime.run.fabric import gathered

if TYPE_CHECKING:
    from leaven.runtime.run.phase import Phase

_CLOSE = 1e-2  # of the largest output: at half precision, two ways to the same sum differ that much
_USE_A_LOOP = "train the head with an optimizer: remove `solver`"


class Head:
    """The only trainable layer of a model: linear, and with the model's outputs as its own."""

    def __init__(self, model: nn.Module) -> None:
        trainable = [
            (path, module)
            for path, module in model.named_modules()
            if any(parameter.requires_grad for parameter in module.parameters(recurse=False))
        ]
        if len(trainable) != 1:
            named = ", ".join(path or "the model itself" for path, _ in trainable[:3]) or "none"
            raise Failure(f"a solver needs one trainable layer, and there are {len(trainable)}: {named}", _USE_A_LOOP)
        self.path, self.layer = trainable[0]
        if not _is_linear(self.layer):
            kind = type(self.layer).__name__
            raise Failure(f"a solver needs a linear head, and {self.path} is a {kind}", _USE_A_LOOP)
        self.weight: Tensor = self.layer.weight
        self.bias: Tensor | None = self.layer.bias

    def check(self, features: Tensor, outputs: Tensor) -> None:
        """Whether the model's outputs are nothing but a linear function of the features that its head gets."""
        with torch.no_grad():
            linear = F.linear(features, self.weight.flatten(1), self.bias)
        expected = outputs.flatten(1)
        if linear.shape != expected.shape or (linear - expected).abs().max() > _CLOSE * expected.abs().max():
            raise Failure(f"{self.path} is not the last layer of the model, or not only linear", _USE_A_LOOP)

    def set(self, weight: Tensor, bias: Tensor) -> None:
        with torch.no_grad():
            self.weight.copy_(weight.reshape(self.weight.shape))
            if self.bias is not None:
                self.bias.copy_(bias)


def _is_linear(layer: nn.Module) -> bool:
    """Whether a layer is linear for features without height and width."""
    if isinstance(layer, nn.Conv2d):
        return layer.kernel_size == (1, 1) and layer.groups == 1
    return isinstance(layer, nn.Linear)


@dataclass(eq=False)
class Features:
    """The features and targets of a split: batches have features in place of images."""

    name: str
    batch_size: int
    target: Target
    features: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def order(self, rank: int = 0, world: int = 1) -> None:
        """Not known: the shares of several processes were put together."""

    def batches(
        self, epoch: int, *, first: int = 0, rank: int = 0, world: int = 1, shuffle: bool = True
    ) -> Iterator[tuple[Tensor, Tensor]]:
        size = max(1, self.batch_size // world)
        own = zip(self.features[rank::world].split(size), self.targets[rank::world].split(size), strict=True)
        return islice(own, first, None)


def features_of(
    phase: "Phase", model: nn.Module, head: Head, split: Split, views: int = 1, most: int | None = None
) -> Features:
    """The features of a split, of so many views where images are augmented; of at most so many batches of each.

    Several processes share the work, and all of them get the result.
    """
    if not len(split):
        return Features(split.name, split.batch_size, split.target, torch.empty(0, 0), torch.empty(0))
    run, fabric = phase.run, phase.run.fabric
    taken: list[Tensor] = []
    found: list[tuple[Tensor, Tensor]] = []
    hook = head.layer.register_forward_pre_hook(lambda _layer, given: taken.append(given[0]))
    batches = min(split.steps(fabric.world_size), most or split.steps(fabric.world_size))
    try:
        with evaluating(model), torch.no_grad(), phase.outlook.bar(f"features of {split.name}", views * batches) as bar:
            for view in range(views):
                share = split.batches(view, rank=fabric.global_rank, world=fabric.world_size, shuffle=False)
                for batch in islice(share, most):
                    run.stop_here()
                    images, targets = fabric.to_device(batch)
                    with fabric.autocast():
                        outputs = model(images)
                    if len(taken) != 1:
                        raise Failure(f"{head.path} runs {len(taken)} times per batch; a solver needs it once")
                    features = taken.pop().flatten(1)
                    if not found:
                        head.check(features.float(), outputs.float())
                    found.append((features.float().cpu(), targets.cpu()))
                    bar.advance()
    finally:
        hook.remove()
    of_all = chain.from_iterable(gathered(fabric, found))
    features, targets = (torch.cat(parts) for parts in zip(*of_all, strict=True))
    return Features(split.name, split.batch_size, split.target, features, targets)
