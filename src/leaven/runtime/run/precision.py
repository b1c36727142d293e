"""The precision of computation."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def precision_of(name: str) -> Any:
    """Fabric's precision of that name."""
    from lightning.fabric import Fabric

    return Fabric(devices=1, precision=name).strategy.precision  # type: ignore[arg-type]


def use_precision(fabric: "Fabric", precision: Any) -> None:
    """Let Fabric use another precision from now on; it keeps it in two places."""
    fabric.strategy.precision = precision
    fabric._precision = precision
