"""Individual weights set to zero by a mask, chosen as torch's own pruning chooses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import torch
from torch import nn
from torch.nn.utils import prune

from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import parameters_under
from leaven.runtime.model.masks import Mask, add_mask
from leaven.runtime.seeding import derive_seed


@dataclass(frozen=True)
class MaskedLayer:
    """A layer, the mask over its weight, and the seed of its random choices."""

    layer: nn.Module
    mask: Mask
    seed: int


@dataclass(frozen=True)
class Unstructured:
    """The weights nearest to zero in each layer, or random ones."""

    by: Literal["l1", "random"] = "l1"

    @torch.no_grad()
    def take_out(self, one: MaskedLayer, share: float) -> None:
        """Take so large a share out of a layer; what is out already counts."""
        weight = one.layer.weight
        assert isinstance(weight, torch.Tensor)
        scores = weight
        if self.by == "random":  # the same numbers each time, so that a growing share holds the smaller one
            random = torch.rand(weight.shape, generator=torch.Generator().manual_seed(one.seed))
            scores = random.to(weight.device) * (weight != 0)
        way: Any = prune.L1Unstructured(share)
        one.mask.kept.copy_(way.compute_mask(scores, one.mask.kept))


def mask_layers(model: nn.Module, on: Sequence[str] | None, seed: int) -> list[MaskedLayer]:
    """Masks over the chosen layers, or over all; nothing is out yet."""
    chosen = parameters_under(model, [""] if on is None else on)
    layers = {}  # those that multiply by a matrix of weights: linear ones and convolutions of all kinds
    for path, layer in model.named_modules():
        weight = _weight(layer)
        if weight is not None and weight.dim() > 1 and not isinstance(layer, nn.Embedding) and weight in chosen:
            layers[path] = layer
    if not layers:
        raise Failure(
            "none of the chosen layers has weights that can be pruned", "choose convolutions or linear layers"
        )
    return [
        MaskedLayer(layer, add_mask(layer), derive_seed(seed, crc32(path.encode()))) for path, layer in layers.items()
    ]


def sparsity_summary(layers: Sequence[MaskedLayer]) -> str:
    """`pruned: 80.0 % of the 1,234 weights in 3 layers are zero; …`."""
    total = sum(one.mask.kept.numel() for one in layers)
    weights: list[Any] = [one.layer.weight for one in layers]  # as they are used, under all masks
    out = total - sum(int(torch.count_nonzero(weight)) for weight in weights)
    where = f"{len(layers)} layers" if len(layers) > 1 else "1 layer"
    return (
        f"pruned: {100 * out / total:.1f} % of the {total:,} weights in {where} are zero; "
        "parameters, FLOPs, size and time stay as they are"
    )


def _weight(layer: nn.Module) -> nn.Parameter | None:
    """The weight of a layer, below the masks that lie over it already."""
    if "parametrizations" in layer._modules:
        return getattr(getattr(layer.parametrizations, "weight", None), "original", None)
    return layer._parameters.get("weight")
