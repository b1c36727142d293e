"""Fabric, and the precision of computation."""

import os
import warnings
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_LOOKS_FOR_DRIVER = "PYTORCH_NVML_BASED_CUDA_CHECK"  # set by Lightning


def fabric_with(**settings: Any) -> "Fabric":
    """A Fabric with these settings. At mixed precision, a model gets its inputs as they are: autocast rounds what the
    operations that gain by it get, and not the coordinates of boxes."""
    from lightning.fabric import Fabric
    from lightning.fabric.plugins import MixedPrecision

    if not torch.cuda.is_available():  # else torch would look for the driver's library in every step
        os.environ.pop(_LOOKS_FOR_DRIVER, None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The `srun` command is available")  # training without it is fine
        fabric = Fabric(**settings)
    if isinstance(fabric.strategy.precision, MixedPrecision):
        fabric.strategy.precision.convert_input = lambda data: data  # type: ignore[method-assign]
    return fabric


def precision_of(name: str) -> Any:
    """Fabric's precision of that name."""
    return fabric_with(devices=1, precision=name).strategy.precision


def use_precision(fabric: "Fabric", precision: Any) -> None:
    """Let Fabric use another precision from now on; it keeps it in two places."""
    fabric.strategy.precision = precision
    fabric._precision = precision
