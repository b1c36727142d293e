"""What techniques hung onto a model's layers, made part of its weights, so that a plain model is left."""

from torch import nn

from leaven.runtime import masks
from leaven.techniques.adapting import merge


def settle(module: nn.Module) -> None:
    """Merge adapters into the weights, but for those that are kept aside, and make masks permanent.

    The model answers as before, up to rounding, and has its own names and kinds of layers again.
    """
    merge(module)
    masks.settle(module)
