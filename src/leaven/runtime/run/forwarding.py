"""Calls of a model that go through Fabric while a phase trains it.

Fabric runs a model at the chosen precision and on several devices by wrapping it. The wrapper has other parameter
names than the model, so a program that used it would need two names for one model. Here the model's own call goes
through the wrapper, by the attribute that `nn.Module.compile` uses for the same purpose: torch leaves it out of copies
and pickles, and a copy (an average of weights, a snapshot) is a plain model.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leaven.formats.target import Target
from leaven.runtime.failures import Failure

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_CALL = "_compiled_call_impl"


class Forwarding:
    """Lets `model(images)` go through Fabric's wrapper; without gradients, as in evaluation, only the precision.

    The first time, the number of outputs is compared with that of the `target`.
    """

    def __init__(self, model: nn.Module, wrapped: Any, fabric: "Fabric", target: Target) -> None:
        self.model = model
        self.wrapped = wrapped
        self.fabric = fabric
        self._unchecked: Target | None = target
        self._before = model.__dict__.get(_CALL)  # a model that its author compiled has one
        model.__dict__[_CALL] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.model.__dict__[_CALL] = self._before  # what is wrapped is called as it is
        try:
            if torch.is_grad_enabled():
                outputs = self.wrapped(*args, **kwargs)
                if self._unchecked is not None:
                    self._check(outputs, self._unchecked, *args, **kwargs)
                return outputs
            with self.fabric.autocast():
                return self.model(*args, **kwargs)
        finally:
            self.model.__dict__[_CALL] = self

    @torch.no_grad()
    def _check(self, outputs: Any, target: Target, *args: Any, **kwargs: Any) -> None:
        """Fail where the bundle would, which needs one output per name. In training, a model may return more."""
        self._unchecked = None
        if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[1] == len(target.names):
            return
        is_training = self.model.training
        with self.fabric.autocast():
            evaluated = self.model.eval()(*args, **kwargs)
        self.model.train(is_training)
        if isinstance(evaluated, Tensor) and evaluated.shape == outputs.shape:
            raise wrong_outputs(outputs.shape[1], target)

    def end(self) -> None:
        """Let calls of the model be plain again."""
        self.model.__dict__[_CALL] = self._before


def wrong_outputs(count: int, target: Target) -> Failure:
    """The model has another number of outputs than the data needs."""
    needed = len(target.names)
    has = f"{needed} number{'s' * (needed > 1)} to predict" if target.kind == "number" else target.brief
    return Failure(
        f"the model has {count} output{'s' * (count > 1)}, but the data has {has}",
        f"`build_model` must return a model with {needed} output{'s' * (needed > 1)}",
        about="build_model",
    )
