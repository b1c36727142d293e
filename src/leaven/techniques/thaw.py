"""The head first, then stage by stage what lies before it."""

from collections.abc import Sequence

from torch import nn

from leaven.runtime.failures import Failure
from leaven.runtime.freezing import wake
from leaven.runtime.phase import Phase


class Thaw:
    """Lets the last stage move from the beginning, and one more towards the stem after every `every` epochs."""

    def __init__(self, module: nn.Module, stages: Sequence[Sequence[str]], every: int = 1) -> None:
        if len(stages) < 2:
            raise Failure("the model has no stages that `thaw` could let join one after the other", about="Thaw(")
        self.module = module
        self.later = [(number * every, stage) for number, stage in enumerate(reversed(stages)) if number]

    def before_epoch(self, phase: Phase) -> None:
        wake(self.module, phase.epoch, *self.later)

    def at_end(self, module: nn.Module) -> None:
        wake(module, max(epoch for epoch, _ in self.later), *self.later)
