"""Low-rank additions to weights that keep still."""

from collections.abc import Sequence

from torch import nn

from leaven.techniques.adapting import Adapter, adapt, chosen_layers


class Lora:
    """Puts beside each chosen layer a pair of thin ones, whose product starts at zero and is added to its output."""

    def __init__(
        self,
        rank: int = 8,
        on: Sequence[str] | None = None,
        alpha: float | None = None,
        dropout: float = 0.0,
        merge: bool = True,
    ) -> None:
        self.rank = rank
        self.on = on
        self.alpha = alpha
        self.dropout = dropout
        self.merge = merge

    def on_model(self, module: nn.Module) -> None:
        layers = chosen_layers(module, self.on)
        adapt(module, Adapter("lora", layers, self.rank, self.alpha, self.dropout, not self.merge))
