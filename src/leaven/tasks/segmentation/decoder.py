"""A decoder for the feature maps of a backbone: a feature pyramid network (Lin et al., 2017).

Decides how a model of timm becomes one for segmentation: its classifier and what only that needs are removed, and its
feature maps, from a quarter of the image's size down, are brought together and classified pixel by pixel. All other
layers keep their names, so that recipes select them as usual.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from leaven.runtime.failures import Failure
from leaven.runtime.model.looking import looking_at
from leaven.runtime.model.modes import evaluating

WIDTH = 128  # channels of the decoder
LEVELS = 4  # feature maps that it takes
_GROUPS = 16
_FINEST = 4  # a feature map may have this part of the image's height
_SIDE = 224


class Decoder(nn.Module):
    """Adds up feature maps from coarse to fine, convolved to the same number of channels, and classifies each pixel."""

    def __init__(self, levels: Sequence[int], channels: Sequence[int], classes: int) -> None:
        super().__init__()
        self.levels = list(levels)  # the numbers of the feature maps, as the backbone counts them
        self.lateral = nn.ModuleList(nn.Conv2d(each, WIDTH, 1) for each in channels)
        self.smooth = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.GroupNorm(_GROUPS, WIDTH), nn.ReLU()
        )
        self.classifier = nn.Conv2d(WIDTH, classes, 1)

    def forward(self, features: Sequence[Tensor], size: tuple[int, int]) -> Tensor:
        """The logits of each pixel of an image of that size."""
        total = self.lateral[-1](features[-1])
        for lateral, feature in zip(reversed(self.lateral[:-1]), reversed(features[:-1]), strict=True):
            total = lateral(feature) + functional.interpolate(total, size=feature.shape[-2:], mode="nearest")
        logits = self.classifier(self.smooth(total))
        return functional.interpolate(logits, size=size, mode="bilinear", align_corners=False)


class _Segmenting:
    """The forward pass of a model of timm that has a decoder."""

    forward_intermediates: Any
    decoder: Decoder

    def forward(self, images: Tensor) -> Tensor:
        features = self.forward_intermediates(images, indices=self.decoder.levels, intermediates_only=True)
        return self.decoder(features, images.shape[-2:])  # type: ignore[no-any-return]


def add_decoder(model: nn.Module, classes: int) -> None:
    """Make a model of timm one for segmentation."""
    if not hasattr(model, "forward_intermediates"):
        raise Failure(f"{type(model).__name__} has no feature maps for segmentation", "use another model of timm")
    levels, channels = _levels(model)
    prune: Any = getattr(model, "prune_intermediate_layers", None)
    if prune is not None:
        prune(levels, prune_norm=True, prune_head=True)
    model.decoder = Decoder(levels, channels, classes).to(next(model.parameters()).device)
    kind: Any = type(model)
    model.__class__ = _segmenting(kind)


@cache
def _segmenting(kind: Any) -> Any:
    return type(kind.__name__, (_Segmenting, kind), {"__module__": kind.__module__})


def _levels(model: Any) -> tuple[list[int], list[int]]:
    """The feature maps that the decoder takes, and their channels: the last ones that are not too large."""
    side = (getattr(model, "pretrained_cfg", None) or {}).get("input_size", (3, _SIDE, _SIDE))
    weight = next(model.parameters())
    image = torch.zeros((1, *side), device=weight.device, dtype=weight.dtype)
    copied: Any
    with looking_at(model, or_itself=True) as copied, evaluating(copied), torch.no_grad():
        maps = copied.forward_intermediates(image, intermediates_only=True)
    fitting = [at for at, each in enumerate(maps) if each.shape[-2] * _FINEST <= image.shape[-2]]
    sizes = {at: tuple(maps[at].shape[-2:]) for at in fitting}
    last_of_size = [at for at in fitting if at == max(other for other in fitting if sizes[other] == sizes[at])]
    levels = last_of_size if len(last_of_size) > 1 else fitting
    if len(last_of_size) < 2 and len(fitting) >= LEVELS:  # of a vision transformer: evenly over the depth
        levels = sorted({fitting[(part + 1) * len(fitting) // LEVELS - 1] for part in range(LEVELS)})
    if not levels:
        raise Failure(f"{type(model).__name__} has no feature maps for segmentation", "use another model of timm")
    return levels[-LEVELS:], [int(maps[at].shape[1]) for at in levels[-LEVELS:]]
