"""The first forward pass of a phase, which finds a model with the wrong number of outputs before it is trained."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leaven.formats.target import Target
from leaven.runtime.failures import Failure
from leaven.runtime.model.looking import NotCopied, looking_at
from leaven.runtime.run.forwarding import Forwarding
from leaven.runtime.run.placement import Placement

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class CheckedForwarding(Forwarding):
    """Compares the number of outputs with the data's, once. A bundle could not be saved with another one."""

    def __init__(self, model: nn.Module, placement: Placement, fabric: "Fabric", target: Target) -> None:
        super().__init__(model, placement.forward, fabric)
        self._placement = placement
        self._unchecked: Target | None = target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().__call__(*args, **kwargs)
        if self._unchecked is not None and torch.is_grad_enabled():
            target, self._unchecked = self._unchecked, None
            count = _count(outputs)
            if count is not None and count != len(target.names) and self._has_in_evaluation(count, *args, **kwargs):
                raise _wrong_outputs(count, target)
        return outputs

    @torch.no_grad()
    def _has_in_evaluation(self, count: int, *args: Any, **kwargs: Any) -> bool:
        """Whether the model has so many outputs in evaluation, too; in training, it may return more for its loss.

        A copy of it is asked; of a model that can't be copied, it is not known.
        """
        try:
            with self._placement.whole(), looking_at(self.model) as copied:
                return _count(copied.eval()(*args, **kwargs)) == count
        except NotCopied:
            return False


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
