"""Whether stored outputs are still those of a model's frozen layers."""

from typing import TYPE_CHECKING

from torch import nn

from leaven.runtime.failures import Failure
from leaven.runtime.model.outside import state_with_outside
from leaven.runtime.model.state import differences, tensors_of
from leaven.runtime.stored import identity
from leaven.runtime.stored.frozen import StoredPart
from leaven.runtime.trials.shared import own_weights

if TYPE_CHECKING:
    from leaven.runtime.run.run import Run


class Outdated:
    """Whether something that the planner does not know of has changed or unfrozen layers whose outputs are stored. From
    then on they run again, and a line says why."""

    def __init__(self, run: "Run", phase: str, model: nn.Module, stored: StoredPart) -> None:
        self.is_so = False  # when someone looked last
        self._run = run
        self._phase = phase
        self._model = model
        self._settings = state_with_outside(model)  # with which the graph was found
        self._tensors = tensors_of(stored.part.before)
        self._weights = stored.weights
        self._versions = self._now() if stored.is_of_copy else []  # torch counts writes to a tensor

    def look(self) -> bool:
        """Whether they are outdated now: takes some milliseconds."""
        if not self.is_so and (reason := self._reason()):
            if self._run.trial is not None and not self._has_same_weights():
                raise Failure(
                    "the program writes to the weights of frozen layers, which trials that train together share",
                    "train them one by one: `leaven run RECIPE --no-cache`",
                )
            own_weights(self._model)
            self.is_so = True
            self._run.print(f"{self._phase}: from here on, the frozen layers run in every epoch, because {reason}")
        return self.is_so

    def _reason(self) -> str:
        """Why they are, in words that follow "because"; empty where they are not."""
        if any(tensor.requires_grad for tensor in self._tensors.values()):
            return "they are trainable now"
        if not self._has_same_weights():
            return "their weights have changed"
        settings = differences(self._settings, state_with_outside(self._model))
        return f"{settings[0]} has changed" if settings else ""

    def _has_same_weights(self) -> bool:
        versions = self._now()
        if versions != self._versions:
            if identity.of_weights(self._tensors) != self._weights:
                return False
            self._versions = versions
        return True

    def _now(self) -> list[int]:
        return [tensor._version for tensor in self._tensors.values()]
