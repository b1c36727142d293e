"""Low-rank updates of frozen weights."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from leaven.techniques.adapters.adapter import add_adapter


class Lora:
    """Adds to each chosen layer the product of two thin matrices, which is zero at first."""

    def __init__(
        self,
        rank: int = 8,
        *,
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

    def on_model(self, model: nn.Module) -> None:
        add_adapter(model, self)

    def config(self, layers: str) -> Any:
        import peft

        alpha: Any = self.rank if self.alpha is None else self.alpha  # PEFT's type says integer; any number works
        return peft.LoraConfig(r=self.rank, target_modules=layers, lora_alpha=alpha, lora_dropout=self.dropout)
