"""A bundle that holds adapters: what differs from a model that others have, and where that model's weights are from.

Decides what is left out of such a bundle, and that a model is put together only over the very weights that it was
trained over. Of these it knows names and a checksum; they are read from an installed package, from where a library
publishes them, or from a file, and nothing else is ever fetched.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leaven.bundle.building import BuiltBy, Changed, Timm, Torchvision, Transformers
from leaven.bundle.source_code import Code
from leaven.runtime.downloads import from_hub
from leaven.runtime.failures import Failure
from leaven.runtime.model.text import packaged_folder, published_model
from leaven.runtime.model.weights import load_weights, packaged_weights
from leaven.techniques.adapters.adapter import Added, adapters_of, describe, read_adapter
from leaven.terminal.visible import in_markdown


@dataclass(frozen=True)
class Over:
    """Whose weights stay out of a bundle: those of a package, those that a library publishes (by their tag, or
    DEFAULT), or those of a file. The layers below the paths in `new` were not taken from there."""

    starter: str = ""
    hub: str = ""
    file: str | os.PathLike[str] = ""
    new: Sequence[str] = ()

    def describe(self, folder: Path) -> dict[str, Any]:
        source = {"starter": self.starter, "hub": self.hub}
        if self.file:  # as it is found from the bundle; a stranger puts it beside
            source["file"] = Path(os.path.relpath(self.file, folder)).as_posix()
        return {"weights": {name: value for name, value in source.items() if value}, "new": list(self.new)}


def left_out(
    over: Over, builder: BuiltBy, code: Code, module: nn.Module, weights: Mapping[str, Tensor], file: Path
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description of the weights that a bundle stands on, and those that are left for it to hold."""
    data = over.describe(file.parent)
    adapters = adapters_of(module)
    below = _published(data, builder, code, file)
    out, kept = {}, {}
    for name, value in weights.items():
        plain = _plain_name(name, adapters)
        known = below.get(plain)
        if known is not None and known.dtype == value.dtype and torch.equal(known, value):
            out[plain] = value
        else:
            kept[name] = value
    return {**data, "sha256": _digest(out), "adapters": list(map(describe, adapters))}, kept


def put_together(
    model: nn.Module, data: Mapping[str, Any], weights: Mapping[str, Tensor], builder: BuiltBy, code: Code, file: Path
) -> dict[str, Tensor]:
    """Put the adapters on a model, and give all its weights: those of the bundle, and those that it stands on."""
    add_adapters(model, data, file)
    adapters = adapters_of(model)
    lacking = {name: _plain_name(name, adapters) for name in model.state_dict() if name not in weights}
    below = _published(data, builder, code, file)
    out = {plain: below[plain] for plain in lacking.values() if plain in below}
    if _digest(out) != data["sha256"]:
        raise Failure(
            f"{file.name} was trained over other weights than those of {_source(data)}",
            f"it needs exactly those that it was made with (sha256 {data['sha256'][:12]}… of their tensors)",
        )
    return {**weights, **{name: out[plain] for name, plain in lacking.items()}}


def add_adapters(model: nn.Module, data: Mapping[str, Any], file: Path) -> None:
    """Put the adapters on a model, to be merged once the weights are in."""
    if data["adapters"] and find_spec("peft") is None:
        raise Failure(f"{file.name} holds adapters, but PEFT, which applies them, is not installed", "pip install peft")
    for adapter in data["adapters"]:
        read_adapter(adapter).on_model(model)


def requirements(data: Mapping[str, Any]) -> str:
    """The weights and packages that the bundle needs, in two sentences."""
    return (
        f"It holds only what differs from the weights of {in_markdown(_source(data))} (sha256 {data['sha256']} of "
        "their tensors), which it needs to be loaded, and adapters, for which `pip install peft` is needed."
    )


def _source(data: Mapping[str, Any]) -> str:
    match data["weights"]:
        case {"starter": package}:
            return f"the package {package}"
        case {"file": file}:
            return Path(file).name
    return "the hub"


# -- the weights below


def _published(data: Mapping[str, Any], builder: BuiltBy, code: Code, file: Path) -> dict[str, Tensor]:
    """The weights that a bundle stands on, by the names of the model before user code changed it."""
    if isinstance(builder, Changed):
        builder = builder.first
    is_text = isinstance(builder, Transformers)
    place: str | os.PathLike[str]
    match data["weights"]:
        case {"starter": str(package)}:
            place = packaged_folder(package) if is_text else packaged_weights(package)
        case {"file": str(place)}:
            place = _found(place, file)
        case {"hub": str(place)} if is_text:
            pass
        case {"hub": str(tag)}:
            return dict(fetched(builder, tag).state_dict())
        case _:
            raise ValueError("it does not say on whose weights it stands")
    if isinstance(builder, Transformers):
        return dict(published_model(str(place), builder.config, builder.pooling).state_dict())
    model = builder.build(code)
    filled = load_weights(model, place, new=[str(path) for path in data["new"]])
    state = model.state_dict()
    return {name: state[name] for name in filled}


def _found(place: str, bundle: Path) -> Path:
    name = Path(place).name
    candidates = [bundle.parent / name, Path(name)]
    if not Path(place).is_absolute():
        candidates.insert(0, bundle.parent / place)
    if (existing := next((file for file in candidates if file.exists()), None)) is not None:
        return existing
    fact = f"{bundle.name} was trained over the weights in {name}, which is not here"
    raise Failure(fact, "put that file beside the bundle")


def fetched(builder: BuiltBy, tag: str) -> nn.Module:
    """The model with published weights and the head that it was published with."""
    if not isinstance(builder, Timm | Torchvision):
        raise Failure("there are no published weights for this model")
    arguments = {name: value for name, value in builder.arguments.items() if name != "num_classes"}
    model: nn.Module
    with from_hub(builder.name):
        if isinstance(builder, Timm):
            import timm

            model = timm.create_model(builder.name, pretrained=True, **arguments)
        else:
            from torchvision import models

            model = models.get_model(builder.name, weights=tag, **arguments)
    return model


# -- small things


def _plain_name(name: str, adapters: Sequence[Added]) -> str:
    """The name of a weight without the adapter around its layer."""
    layer, is_inside, rest = name.rpartition(".base_layer.")
    return f"{layer}.{rest}" if is_inside and any(layer in adapter.layers for adapter in adapters) else name


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """A checksum over names, kinds, shapes and numbers, whatever the order."""
    seen = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        seen.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        seen.update(value.flatten().view(torch.uint8).numpy().tobytes())
    return seen.hexdigest()
