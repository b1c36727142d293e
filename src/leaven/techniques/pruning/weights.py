"""Single weights taken out by a mask, chosen as torch's own pruning chooses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import parameters_under
from leaven.runtime.model.masks import Mask, add_mask
from leaven.runtime.seeding import derive_seed


@dataclass(frozen=True)
class MaskedLayer:
    """A layer, the mask over its weight, and the seed by which its lots are drawn."""

    layer: nn.Module
    mask: Mask
    seed: int


@dataclass(frozen=True)
class Unstructured:
    """The weights nearest to zero in each layer, or some by lot."""

    by: Literal["l1", "random"] = "l1"

    @torch.no_grad()
    def take_out(self, one: MaskedLayer, share: float) -> None:
        """Take so large a share out of a layer; what is out already counts."""
        weight = one.layer.weight
        assert isinstance(weight, torch.Tensor)
        scores = weight
        if self.by == "random":  # the same lots each time, so that a growing share holds the smaller one
            lots = torch.rand(weight.shape, generator=torch.Generator().manual_seed(one.seed))
            scores = lots.to(weight.device) * (weight != 0)
        way: Any = prune.L1Unstructured(share)
        one.mask.kept.copy_(way.compute_mask(scores, one.mask.kept))


def mask_layers(model: nn.Module, on: Sequence[str] | None, seed: int) -> list[MaskedLayer]:
    """Masks over the chosen layers, or over all; nothing is out yet."""
    chosen = parameters_under(model, [""] if on is None else on)
    found = [(path, layer) for path, layer in model.named_modules() if _is_prunable(layer)]
    layers = {path: layer for path, layer in found if _weight(layer) in chosen}
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
    out = total - sum(int(torch.count_nonzero(_weight_now(one.layer))) for one in layers)  # by earlier masks too
    where = f"{len(layers)} layers" if len(layers) > 1 else "1 layer"
    return (
        f"pruned: {100 * out / total:.1f} % of the {total:,} weights in {where} are zero; "
        "parameters, FLOPs, size and time stay as they are"
    )


def _weight_now(layer: nn.Module) -> Tensor:
    """A layer's weight as it is used, under all masks."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight


def _is_prunable(layer: nn.Module) -> bool:
    """Whether a layer multiplies by a matrix of weights: linear ones and convolutions of all kinds."""
    weight = _weight(layer)
    return weight is not None and weight.dim() > 1 and not isinstance(layer, nn.Embedding)


def _weight(layer: nn.Module) -> nn.Parameter | None:
    """The weight of a layer, below the masks that lie over it already."""
    if "parametrizations" in layer._modules:
        made_of = getattr(layer.parametrizations, "weight", None)
        return made_of.original if made_of is not None else None
    return layer._parameters.get("weight")
