"""The head alone, then everything."""

from collections.abc import Sequence

from torch import nn

from leaven.runtime.freezing import wake
from leaven.runtime.phase import Phase


class LpFt:
    """Keeps all stages but the last still for the first `epochs` epochs."""

    def __init__(self, module: nn.Module, stages: Sequence[Sequence[str]], epochs: int = 1) -> None:
        self.module = module
        self.layers = [path for stage in stages[:-1] for path in stage]
        self.epochs = epochs

    def before_epoch(self, phase: Phase) -> None:
        wake(self.module, phase.epoch, (self.epochs, self.layers))

    def at_end(self, module: nn.Module) -> None:
        wake(module, self.epochs, (self.epochs, self.layers))
