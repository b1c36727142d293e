"""A model as a phase trains it: on its devices, at its precision, with its frozen layers in evaluation mode.

A program gets it from `phase.setup`, as users of Fabric know it, and uses it in the place of its model. The one inside
stays as it is: nothing of it is replaced, and its parameters have their own names from here, too.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leaven.formats.target import Target
from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import frozen_layers, set_training
from leaven.runtime.model.looking import NotCopied, looking_at
from leaven.runtime.model.model_around import ModelAround, inside
from leaven.runtime.model.modes import evaluating
from leaven.runtime.run.placement import Placement
from leaven.runtime.stored.batch import inputs_of_model

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class PlacedModel(ModelAround):
    """Runs a model through Fabric: at the chosen precision and, where gradients are computed, on all devices.

    Its copies and pickles are of the model inside. `train` leaves frozen layers in evaluation mode.
    """

    _own = ModelAround._own | {"_placement", "_fabric", "_unchecked", "_weights_before"}

    def __init__(self, model: nn.Module, placement: Placement, fabric: "Fabric", target: Target) -> None:
        super().__init__(model)
        self.training = model.training
        self._placement = placement
        self._fabric = fabric
        self._unchecked: Target | None = target
        self._weights_before = frozenset(model.state_dict())

    def forward(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        args = (inputs_of_model(batch), *args)
        if not torch.is_grad_enabled():
            with self._fabric.autocast():
                return self.module(*args, **kwargs)
        outputs = self._placement.forward(*args, **kwargs)
        if self._unchecked is not None:
            target, self._unchecked = self._unchecked, None
            self._check(outputs, target, *args, **kwargs)
        return outputs

    def train(self, mode: bool = True) -> "PlacedModel":
        if mode:
            set_training(self.module)
        else:
            self.module.eval()
        self.training = mode
        return self

    def whole(self) -> AbstractContextManager[Any]:
        """For an evaluation, every process has all parameters."""
        return self._placement.whole()

    def __repr__(self) -> str:
        frozen = len(frozen_layers(self.module))
        kept = f", {frozen} frozen layers in evaluation mode" if frozen else ""
        precision = self._fabric.strategy.precision.precision
        model = self.module if isinstance(self.module, ModelAround) else type(self.module).__name__
        return f"PlacedModel({model} on {self._fabric.device}, precision {precision}{kept})"

    def __reduce__(self) -> Any:
        return _itself, (self.module,)

    # -- the first forward pass

    def _check(self, outputs: Any, target: Target, *args: Any, **kwargs: Any) -> None:
        """Find a model that can be trained, but not saved and loaded: with the wrong number of outputs, or with weights
        that it makes only now."""
        if late := sorted(set(self.module.state_dict()) - self._weights_before):
            kind = type(inside(self.module)).__name__
            raise Failure(
                f"{kind} makes `{late[0]}` in its first forward pass, so what was saved could not be loaded",
                "register it in `__init__`, with its final shape",
                about="build_model",
            )
        count = _count(outputs)
        if count is not None and count != len(target.names) and self._has_in_evaluation(count, *args, **kwargs):
            raise _wrong_outputs(count, target)

    @torch.no_grad()
    def _has_in_evaluation(self, count: int, *args: Any, **kwargs: Any) -> bool:
        """Whether the model has so many outputs in evaluation, too; in training, it may return more for its loss.

        A copy of it is asked; of a model that can't be copied, it is not known.
        """
        try:
            with self.whole(), looking_at(self.module) as copied, evaluating(copied):
                return _count(copied(*args, **kwargs)) == count
        except NotCopied:
            return False


def _itself(model: nn.Module) -> nn.Module:
    return model


def _count(outputs: Any) -> int | None:
    """How many outputs a model has; None where it returns something else than a row per image."""
    return outputs.shape[1] if isinstance(outputs, Tensor) and outputs.ndim == 2 else None


def _wrong_outputs(count: int, target: Target) -> Failure:
    needed = len(target.names)
    has = f"{needed} number{'s' * (needed > 1)} to predict" if target.kind == "number" else target.brief
    return Failure(
        f"the model has {count} output{'s' * (count > 1)}, but the data has {has}",
        f"`build_model` must return a model with {needed} output{'s' * (needed > 1)}",
        about="build_model",
    )


def whole(model: nn.Module) -> AbstractContextManager[Any]:
    """While a model is evaluated, every process has all of its parameters."""
    return model.whole() if isinstance(model, PlacedModel) else nullcontext()
