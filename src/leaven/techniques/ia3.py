"""One trained factor for each output of layers that keep still."""

from collections.abc import Sequence

from torch import nn

from leaven.techniques.adapting import Adapter, adapt, chosen_layers


class Ia3:
    """Multiplies what each chosen layer gives by a vector that starts with ones."""

    def __init__(self, on: Sequence[str] | None = None, merge: bool = True) -> None:
        self.on = on
        self.merge = merge

    def on_model(self, module: nn.Module) -> None:
        layers = chosen_layers(module, self.on)
        adapt(module, Adapter("ia3", layers, is_kept_aside=not self.merge))
