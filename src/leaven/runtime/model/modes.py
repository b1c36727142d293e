"""The modes of a model: training or evaluation, for each of its modules."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode; afterwards each of its modules in the mode in which it was."""
    modes = [(module, module.training) for module in (model, *model.modules())]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
