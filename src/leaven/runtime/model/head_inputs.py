"""What the last linear layer of a model gets: the features of an input, of which its outputs are a linear function."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class HeadInputs:
    """The features of the batches that a model has computed outputs for."""

    def __init__(self) -> None:
        self.last: tuple[Tensor, Tensor] | None = None  # what the last linear layer got, and returned

    def take(self, outputs: Any) -> Tensor | None:
        """The features for these outputs; None where no linear layer has returned them."""
        last, self.last = self.last, None
        if last is None or not isinstance(outputs, Tensor):
            return None
        features, returned = last
        if returned.shape != outputs.shape or not torch.equal(returned.float().cpu(), outputs.float().cpu()):
            return None
        return features.detach().flatten(1).to("cpu", torch.float16)


@contextmanager
def head_inputs(model: nn.Module) -> Iterator[HeadInputs]:
    """As long as this lasts, what linear layers get is read by hooks."""
    taken = HeadInputs()

    def keep(_layer: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
        if given and isinstance(given[0], Tensor) and isinstance(returned, Tensor) and returned.ndim == 2:
            taken.last = given[0], returned

    hooks = [layer.register_forward_hook(keep) for layer in model.modules() if isinstance(layer, nn.Linear)]
    try:
        yield taken
    finally:
        for hook in hooks:
            hook.remove()
