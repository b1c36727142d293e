"""Shared by all adapters: small trainable weights around layers that stay frozen, added by PEFT.

Decides which layers get one and how it is seeded, and stores on the model which adapters it has, so that they can be
merged into the weights, or saved without them. An adapter itself is a file in this folder: a class whose `config`
returns PEFT's configuration. Which layers stay frozen is the program's business (`freeze`).
"""

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol
from zlib import crc32

import torch
from torch import nn

from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import has_adapter, parameters_under

LARGEST = 2**14  # of the numbers in a bundle that describe an adapter
_NAME = "leaven"  # PEFT's name for every adapter: adding one under another name would deactivate the earlier ones
_ADAPTERS = "_leaven_adapters"  # the attribute in which a model keeps its adapters


class Adapter(Protocol):
    """A technique that adds an adapter to layers. Its other attributes are the numbers that describe it."""

    on: Sequence[str] | None
    merge: bool

    def config(self, layers: str) -> Any:
        """PEFT's configuration; `layers` is a regular expression for their paths."""

    def on_model(self, model: nn.Module) -> None: ...


@dataclass(frozen=True)
class Added:
    """An adapter that was added to a model, and the paths of its layers."""

    adapter: Adapter
    layers: tuple[str, ...]


def add_adapter(model: nn.Module, adapter: Adapter) -> None:
    """Put an adapter around each of its layers; the model's outputs are the same until it is trained."""
    import peft

    layers = _chosen_layers(model, adapter.on)
    for path in layers:
        if path.endswith(".base_layer") and has_adapter(model.get_submodule(path.removesuffix(".base_layer"))):
            raise Failure(f"the layer {path.removesuffix('.base_layer')} already has an adapter")
    were_trainable = {parameter: parameter.requires_grad for parameter in model.parameters()}
    config = adapter.config("|".join(re.escape(path) for path in layers))  # a list would match the ends of paths
    last = list(model.parameters())[-1].detach().cpu().flatten()
    with torch.random.fork_rng(devices=[]):
        # the weights are the same when an interrupted run comes here again
        torch.default_generator.manual_seed(crc32(last.view(torch.uint8).numpy().tobytes()))
        try:
            peft.inject_adapter_in_model(config, model, adapter_name=_NAME)
        except ValueError as problem:
            raise Failure(f"{type(adapter).__name__.lower()} can't be added to these layers: {problem}") from None
    del model.peft_config  # it would get in the way of the next adapter
    for parameter in model.parameters():
        parameter.requires_grad_(were_trainable.get(parameter, True))
    model.__dict__[_ADAPTERS] = (*adapters_of(model), Added(adapter, layers))


def adapters_of(model: nn.Module) -> tuple[Added, ...]:
    """The adapters of a model, in the order in which they were added."""
    found: tuple[Added, ...] = model.__dict__.get(_ADAPTERS, ())
    return found


def merge_adapters(model: nn.Module) -> None:
    """Merge the adapters into the weights, except for those with `merge=False`.

    The outputs stay the same up to rounding; names and types of the layers are again those of the plain model.
    """
    for added in adapters_of(model):
        for path in added.layers if added.adapter.merge else ():
            layer: Any = model.get_submodule(path)
            layer.merge()
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, layer.get_base_layer())
    model.__dict__[_ADAPTERS] = tuple(added for added in adapters_of(model) if not added.adapter.merge)


def _chosen_layers(model: nn.Module, on: Sequence[str] | None) -> tuple[str, ...]:
    """The paths of the layers whose weights are named; by default, all linear layers and convolutions."""
    chosen = parameters_under(model, [""] if on is None else on)
    paths = tuple(
        path
        for path, module in model.named_modules()
        if module._parameters.get("weight") in chosen and (on is not None or type(module) in (nn.Linear, nn.Conv2d))
    )
    if not paths:
        raise Failure("none of the chosen layers can have an adapter", "choose linear layers or convolutions")
    return paths


# -- as data, for bundles


def describe(added: Added) -> dict[str, Any]:
    """An adapter as plain data."""
    numbers = {name: value for name, value in vars(added.adapter).items() if name not in ("on", "merge")}
    return {"kind": type(added.adapter).__name__.lower(), "layers": list(added.layers), **numbers}


def read_adapter(data: Any) -> Adapter:
    """The adapter that `describe` wrote, to be merged once it has its weights; a ValueError where it can't be read."""
    match data:
        case {"kind": str(kind), "layers": [*layers]} if re.fullmatch("[a-z0-9_]+", kind):
            make = _find(kind)
            known = set(inspect.signature(make).parameters) - {"on", "merge"}
            numbers = {name: value for name, value in data.items() if name in known}
            if all(n is None or (isinstance(n, int | float) and 0 <= n <= LARGEST) for n in numbers.values()):
                adapter: Adapter = make(on=tuple(map(str, layers)), merge=True, **numbers)
                return adapter
    raise ValueError("an adapter can't be read")


def _find(kind: str) -> Any:
    """The class of the adapter whose file has this name."""
    package = __name__.rpartition(".")[0]
    try:
        module = import_module(f"{package}.{kind}")
    except ModuleNotFoundError:
        raise ValueError(f"there is no adapter {kind}") from None
    classes = [each for name, each in vars(module).items() if inspect.isclass(each) and name.lower() == kind]
    if not classes or not hasattr(classes[0], "config"):
        raise ValueError(f"there is no adapter {kind}")
    return classes[0]
