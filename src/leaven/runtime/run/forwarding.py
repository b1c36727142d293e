"""Calls of a model that go through Fabric while a phase trains it.

Fabric runs a model at the chosen precision and on several devices by wrapping it. The wrapper has other parameter
names than the model, so a program that used it would need two names for one model. Here the model's own call goes
through the wrapper, by the attribute that `nn.Module.compile` uses for the same purpose: torch leaves it out of copies
and pickles, and a copy (an average of weights, a snapshot) is a plain model.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_CALL = "_compiled_call_impl"


class Forwarding:
    """Lets `model(images)` go through Fabric's wrapper; without gradients, as in evaluation, only the precision."""

    def __init__(self, model: nn.Module, wrapped: Any, fabric: "Fabric") -> None:
        self.model = model
        self.wrapped = wrapped
        self.fabric = fabric
        self._before = model.__dict__.get(_CALL)  # a model that its author compiled has one
        model.__dict__[_CALL] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.model.__dict__[_CALL] = self._before  # what is wrapped is called as it is
        try:
            if torch.is_grad_enabled():
                return self.wrapped(*args, **kwargs)
            with self.fabric.autocast():
                return self.model(*args, **kwargs)
        finally:
            self.model.__dict__[_CALL] = self

    def end(self) -> None:
        """Restore the model's own `__call__`."""
        self.model.__dict__[_CALL] = self._before
