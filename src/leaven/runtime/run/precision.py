"""With which numbers to compute."""

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def best_precision() -> str:
    """bfloat16 where the hardware is made for it, else 32 bits."""
    return "bf16-mixed" if torch.cuda.is_available() and torch.cuda.is_bf16_supported(False) else "32-true"


def precision_of(name: str) -> Any:
    """What Fabric computes with when it is told a precision."""
    from lightning.fabric import Fabric

    return Fabric(devices=1, precision=name).strategy.precision  # type: ignore[arg-type]


def use_precision(fabric: "Fabric", precision: Any) -> None:
    """Let Fabric compute with other numbers from now on. It looks in two places for them."""
    fabric.strategy.precision = precision
    fabric._precision = precision
