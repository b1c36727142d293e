"""Low-rank additions that turn weights, and lengths that are trained apart."""

from collections.abc import Sequence

from torch import nn

from leaven.techniques.adapting import Adapter, adapt, chosen_layers


class Dora:
    """Lets a low-rank addition change the direction of each chosen layer's weights, and a vector their length."""

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
        adapt(module, Adapter("dora", layers, self.rank, self.alpha, self.dropout, not self.merge))
