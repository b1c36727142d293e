"""Fabric as a run uses it: its devices and processes, their strategy, and the precision of computation."""

import argparse
import os
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from lightning.fabric import Fabric  # takes a second to load, and whoever only predicts needs none

Value = TypeVar("Value")
_LOOKS_FOR_DRIVER = "PYTORCH_NVML_BASED_CUDA_CHECK"  # set by Lightning


def fabric_for(args: argparse.Namespace, devices: int | str, strategy: str, precision: str) -> "Fabric":
    """The Fabric of a run, not yet launched; the command line may decide on how many devices."""
    fabric = fabric_with(
        devices=args.devices or devices, num_nodes=args.machines, strategy=_strategy(strategy), precision=precision
    )
    _fix_buckets(fabric)
    return fabric


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


def _strategy(name: str) -> Any:
    """Fabric's strategy of that name; `fsdp` is Leaven's own, since Fabric's is an older one, for GPUs only."""
    if name != "fsdp":
        return name
    from leaven.runtime.run.sharding import Sharding  # it loads Fabric

    return Sharding()


def _fix_buckets(fabric: "Fabric") -> None:
    """Let DDP always exchange gradients in the same groups. By default it groups them anew after its first step, so a
    resumed run would add them up in another order for one step. Nor may a model have parameters without a gradient."""
    options = getattr(fabric.strategy, "_ddp_kwargs", None)
    if options is not None:
        options["find_unused_parameters"] = True
        warnings.filterwarnings("ignore", message="find_unused_parameters=True was specified")


def precision_of(name: str) -> Any:
    """Fabric's precision of that name."""
    return fabric_with(devices=1, precision=name).strategy.precision


def use_precision(fabric: "Fabric", precision: Any) -> None:
    """Let Fabric use another precision from now on; it keeps it in two places."""
    fabric.strategy.precision = precision
    fabric._precision = precision


def gathered(fabric: "Fabric", value: Value) -> list[Value]:
    """A value of every process, in their order."""
    if fabric.world_size == 1:
        return [value]
    found: list[Any] = [None] * fabric.world_size
    torch.distributed.all_gather_object(found, value)
    return found
