"""Adapters: small weights of their own around layers that keep still, put there by PEFT.

Decides which layers get one and from which chance it is drawn, and notes on the model what it carries, so that the
adapters can be merged into the weights or kept aside. What keeps still beside them the program says by `freeze`.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import torch
from torch import nn

from leaven.runtime.failures import Failure
from leaven.runtime.freezing import below, has_adapter

_NAME = "leaven"  # by which PEFT knows every adapter: one that it makes puts all of other names to sleep
_NOTE = "_leaven_adapters"  # the attribute in which a model keeps which adapters it carries


@dataclass(frozen=True)
class Adapter:
    """What stands around some layers. `is_kept_aside` says that it shall not be merged into the weights."""

    kind: Literal["lora", "dora", "ia3"]
    layers: tuple[str, ...]
    rank: int = 0
    alpha: float | None = None
    dropout: float = 0.0
    is_kept_aside: bool = False


def chosen_layers(module: nn.Module, on: Sequence[str] | None) -> tuple[str, ...]:
    """The paths of the layers whose weights are named; without names, of all that are linear or convolutions."""
    chosen = below(module, [""] if on is None else on)
    found = tuple(
        path
        for path, inner in module.named_modules()
        if inner._parameters.get("weight") in chosen and (on is not None or type(inner) in (nn.Linear, nn.Conv2d))
    )
    if not found:
        raise Failure("none of the chosen layers can be adapted", "choose linear layers or convolutions")
    return found


def adapt(module: nn.Module, adapter: Adapter) -> None:
    """Put an adapter around each of its layers; the model answers as before until it is trained."""
    import peft

    for path in adapter.layers:
        if path.endswith(".base_layer") and has_adapter(module.get_submodule(path.removesuffix(".base_layer"))):
            raise Failure(f"the layer {path.removesuffix('.base_layer')} has an adapter already")
    moved = {parameter: parameter.requires_grad for parameter in module.parameters()}
    with _chance_of(module):
        try:
            peft.inject_adapter_in_model(_configuration(adapter), module, adapter_name=_NAME)
        except ValueError as problem:
            raise Failure(f"{adapter.kind} can't be put on these layers: {problem}") from None
    del module.peft_config  # it says less than the note, and would be in the way of the next
    for parameter in module.parameters():
        parameter.requires_grad_(moved.get(parameter, True))
    module.__dict__[_NOTE] = (*adapters_of(module), adapter)


def adapters_of(module: nn.Module) -> tuple[Adapter, ...]:
    """The adapters that a model carries, in the order in which they came."""
    found: tuple[Adapter, ...] = module.__dict__.get(_NOTE, ())
    return found


def merge(module: nn.Module) -> None:
    """Add the adapters to the weights that they stand around, but for those that are kept aside."""
    for adapter in adapters_of(module):
        for path in () if adapter.is_kept_aside else adapter.layers:
            layer: Any = module.get_submodule(path)
            layer.merge()
            above, _, name = path.rpartition(".")
            setattr(module.get_submodule(above), name, layer.get_base_layer())
    module.__dict__[_NOTE] = tuple(adapter for adapter in adapters_of(module) if adapter.is_kept_aside)


def _configuration(adapter: Adapter) -> Any:
    import peft

    layers = "|".join(re.escape(path) for path in adapter.layers)  # whole paths: in a list they would be endings
    if adapter.kind == "ia3":
        return peft.IA3Config(target_modules=layers, feedforward_modules=[])
    alpha: Any = adapter.rank if adapter.alpha is None else adapter.alpha  # PEFT takes any number, and says integer
    return peft.LoraConfig(
        r=adapter.rank,
        target_modules=layers,
        lora_alpha=alpha,
        lora_dropout=adapter.dropout,
        use_dora=adapter.kind == "dora",
    )


@contextmanager
def _chance_of(module: nn.Module) -> Iterator[None]:
    """Chance made of the weights themselves, which are the same when an interrupted run comes here again."""
    last = list(module.parameters())[-1].detach()
    seed = crc32(last.cpu().flatten().view(torch.uint8).numpy().tobytes())
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
