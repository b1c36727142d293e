"""One trained factor for each output of frozen layers."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from leaven.techniques.adapters.adapter import add_adapter


class Ia3:
    """Multiplies the outputs of each chosen layer by a vector that starts with ones."""

    def __init__(self, *, on: Sequence[str] | None = None, merge: bool = True) -> None:
        self.on = on
        self.merge = merge

    def on_model(self, model: nn.Module) -> None:
        add_adapter(model, self)

    def config(self, layers: str) -> Any:
        import peft

        return peft.IA3Config(target_modules=layers, feedforward_modules=[])
