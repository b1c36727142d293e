"""The predictors of torchvision's detectors, fitted to the categories of the data."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.detection import FCOS, FasterRCNN, RetinaNet
from torchvision.models.detection.ssd import SSD
from torchvision.ops.misc import FrozenBatchNorm2d

from leaven.runtime.failures import Failure
from leaven.tasks.detection.target import Categories

_RARE = 0.01  # how likely an object is at first, where nearly all places show the background


def fit_head(model: Any, num_classes: int) -> None:
    """New predictors for so many categories and the background, and batch norms that can be trained.

    torchvision freezes the batch norms of a backbone with published weights. Here they become ordinary ones with the
    same outputs, which a recipe freezes as it freezes any layer.
    """
    outputs = num_classes + 1
    layers = list(predictors(model))
    is_two_stage = isinstance(model, FasterRCNN)
    head: Any = model.roi_heads.box_predictor.cls_score if is_two_stage else model.head.classification_head
    counted = "out_features" if is_two_stage else "num_columns" if hasattr(head, "num_columns") else "num_classes"
    before = int(getattr(head, counted))  # with the background
    for path, layer in layers:
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, _resized(layer, before, outputs))
    if not is_two_stage:
        setattr(head, counted, outputs)
    _initialise(model)
    _use_plain_norms(model)


def predictors(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The layers whose outputs are for the categories, with their paths."""
    match model:
        case FasterRCNN():
            yield "roi_heads.box_predictor.cls_score", model.roi_heads.box_predictor.cls_score
            yield "roi_heads.box_predictor.bbox_pred", model.roi_heads.box_predictor.bbox_pred
            if model.roi_heads.has_mask():
                yield "roi_heads.mask_predictor.mask_fcn_logits", model.roi_heads.mask_predictor.mask_fcn_logits
        case RetinaNet() | FCOS():
            yield "head.classification_head.cls_logits", model.head.classification_head.cls_logits
        case SSD():
            for at, block in enumerate(model.head.classification_head.module_list):
                path = f"head.classification_head.module_list.{at}"
                yield (path, block) if isinstance(block, nn.Conv2d) else (f"{path}.{len(block) - 1}", block[-1])
        case _:
            raise Failure(f"a {type(model).__name__} is not one of torchvision's detectors")


def _resized(layer: Any, before: int, outputs: int) -> nn.Module:
    """A new layer of the same kind with as many outputs for each class."""
    if isinstance(layer, nn.Linear):
        return nn.Linear(layer.in_features, layer.out_features // before * outputs)
    channels = layer.out_channels // before * outputs
    return nn.Conv2d(layer.in_channels, channels, layer.kernel_size, layer.stride, layer.padding)


def _initialise(model: Any) -> None:
    """As torchvision does it for a whole new model."""
    if isinstance(model, FasterRCNN):
        return
    for _, layer in predictors(model):
        assert isinstance(layer, nn.Conv2d)
        assert layer.bias is not None
        if isinstance(model, SSD):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        else:
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.constant_(layer.bias, -math.log((1 - _RARE) / _RARE))


def _use_plain_norms(model: nn.Module) -> None:
    for path, frozen in list(model.named_modules()):
        if isinstance(frozen, FrozenBatchNorm2d):
            state = frozen.state_dict()
            norm = nn.BatchNorm2d(len(state["weight"]))
            state["running_var"] = state["running_var"] + frozen.eps - norm.eps  # only their sum matters
            norm.load_state_dict({**state, "num_batches_tracked": norm.num_batches_tracked})
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, norm)


def row(model: nn.Module, image: Tensor) -> Tensor:
    """The mean of what each predictor computes for an image, over all places. Which of these become objects depends on
    the last digits of numbers, and would tell less about the weights."""
    layers = [(path, layer) for path, layer in predictors(model) if "mask" not in path]  # masks are of objects
    means: dict[str, list[Tensor]] = {path: [] for path, _ in layers}
    hooks = [layer.register_forward_hook(partial(_note_mean, means[path])) for path, layer in layers]
    try:
        model([image])
    finally:
        for hook in hooks:
            hook.remove()
    return torch.cat([torch.stack(passes).mean(dim=0) for passes in means.values()])


def _note_mean(means: list[Tensor], _layer: nn.Module, _inputs: Any, outputs: Tensor) -> None:
    means.append(outputs.flatten(2).mean(dim=(0, 2)) if outputs.ndim == 4 else outputs.mean(dim=0))


def row_size(target: Categories) -> None:
    return None
