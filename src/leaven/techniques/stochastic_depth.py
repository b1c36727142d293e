"""Residual branches that are dropped at random."""

from collections.abc import Iterator

from torch import nn
from torchvision.ops import StochasticDepth as Skip

from leaven.runtime.failures import Failure

_PLACE = "drop_path"  # begins the names of the places where timm's blocks can leave out a branch


class StochasticDepth:
    """Drops residual branches of each image at random: the last with probability `rate`, earlier ones less often."""

    def __init__(self, rate: float = 0.1) -> None:
        self.rate = rate
        self.before: list[tuple[nn.Module, str, nn.Module | None]] = []

    def on_model(self, model: nn.Module) -> None:
        blocks = [(block, places) for block in model.modules() if (places := list(_places(block)))]
        if not blocks:
            raise Failure(
                "the model has no residual branches that `stochastic_depth` could leave out",
                "remove it, or use a model of residual blocks, such as a ResNet of timm's or a ConvNeXt",
                about="StochasticDepth",
            )
        for number, (block, places) in enumerate(blocks, 1):
            for place in places:
                self.before.append((block, place, getattr(block, place)))
                setattr(block, place, Skip(self.rate * number / len(blocks), "row"))

    def at_end(self, model: nn.Module) -> None:
        for block, place, branch in self.before:
            setattr(block, place, branch)
        self.before.clear()


def _places(block: nn.Module) -> Iterator[str]:
    """Where a block can leave out a branch: timm's `drop_path`s, empty or not, and torchvision's own layer."""
    for name, value in [*vars(block).items(), *block._modules.items()]:
        is_empty = value is None or isinstance(value, nn.Identity)
        if isinstance(value, Skip) or (name.startswith(_PLACE) and (is_empty or isinstance(value, nn.Module))):
            yield name
