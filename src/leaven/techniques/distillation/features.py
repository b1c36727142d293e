"""The features inside a model: the layers that compute them, and their last outputs.

A stage ends with the last layer that has weights below it and gives maps of one height and width; that of the smallest
maps is what the head builds on. It is found by showing the model an image, so it holds for any model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

from leaven.formats.layer_names import is_named
from leaven.runtime.failures import Failure
from leaven.runtime.model.looking import looking_at
from leaven.runtime.model.modes import evaluating

MOST_STAGES = 4
_SPECIAL_TOKENS = (0, 1, 2, 4, 5)  # classes and registers, which stand before those of the image
Widths = dict[str, int]  # how many channels each layer gives


def as_map(features: Tensor) -> Tensor:
    """Features as (batch, channels, height, width) in full precision: maps, tokens of a square image, or vectors."""
    features = features.float()
    if features.ndim == 4:
        # Swin and its like keep channels last; only then are the two middle sides the equal ones
        is_channels_last = features.shape[1] == features.shape[2] != features.shape[3]
        return features.permute(0, 3, 1, 2) if is_channels_last else features
    if features.ndim != 3:
        return features.flatten(1)[:, :, None, None]
    side = isqrt(features.shape[1])
    special = features.shape[1] - side**2
    if special not in _SPECIAL_TOKENS:
        return features.mean(dim=1)[:, :, None, None]
    grid: Tensor = features[:, special:].transpose(1, 2).unflatten(2, (side, side))
    return grid


def same_size(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Two maps, each pooled to the smaller height and width."""
    height, width = min(one.shape[2], other.shape[2]), min(one.shape[3], other.shape[3])
    return F.adaptive_avg_pool2d(one, (height, width)), F.adaptive_avg_pool2d(other, (height, width))


class FeatureHooks:
    """Keeps what some layers of a model gave last: of a student only while gradients are wanted."""

    def __init__(self, model: nn.Module, paths: Sequence[str], *, is_student: bool) -> None:
        self.paths = tuple(paths)
        self._seen: dict[str, Tensor] = {}
        self._handles: list[RemovableHandle] = [
            model.get_submodule(path).register_forward_hook(_Tap(path, self._seen, is_student)) for path in paths
        ]

    def features(self) -> list[Tensor]:
        """The last output of each layer, as maps."""
        if missing := [path for path in self.paths if path not in self._seen]:
            raise Failure(f"the layer {missing[0]} had no part in the last batch", "choose other layers: `layers=[…]`")
        return [as_map(self._seen[path]) for path in self.paths]

    def empty(self) -> None:
        self._seen.clear()

    def close(self) -> None:
        """Leave the model as it was."""
        for handle in self._handles:
            handle.remove()
        self.empty()


@dataclass(frozen=True, eq=False)
class _Tap:
    """A hook after a layer. A copy of the model, an average for instance, gets one that keeps nothing."""

    path: str
    seen: dict[str, Tensor] | None
    is_student: bool

    def __call__(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self.seen is not None and isinstance(output, Tensor) and (torch.is_grad_enabled() or not self.is_student):
            self.seen[self.path] = output

    def __deepcopy__(self, memo: Any) -> "_Tap":
        return _Tap(self.path, None, self.is_student)


# -- which layers


@dataclass(frozen=True)
class _Given:
    """The output of a layer in a trial."""

    width: int
    size: tuple[int, int]
    is_map: bool


def layers_of(model: nn.Module, image: Tensor, chosen: Sequence[str] | None) -> Widths:
    """The layers whose features are compared, the chosen ones or those with which stages end, and their widths.

    They are found by showing an image to a copy of the model.
    """
    with looking_at(model, or_itself=True) as copied:
        gave, outputs = _trial(copied, image)
    if chosen is None:
        return _stages(model, gave, outputs)
    paths = []
    for name in chosen:  # a path, or a glob
        named = [path for path, _ in model.named_modules() if path and is_named(path, name)]
        if not named:
            raise Failure(f"the {type(model).__name__} has no layer called {name}")
        paths += named
    if silent := [path for path in paths if path not in gave]:
        raise Failure(f"the layer {silent[0]} gives no features", "choose one that gives maps, tokens or vectors")
    return {path: gave[path].width for path in paths}


def _stages(model: nn.Module, gave: dict[str, _Given], outputs: int) -> Widths:
    """The ends of the last stages, from the largest maps to the smallest; of a net without maps, what the head gets."""
    ends: dict[tuple[int, int], str] = {}
    for path, given in gave.items():
        is_head = given.size == (1, 1) and given.width == outputs
        if given.is_map and not is_head and next(model.get_submodule(path).parameters(), None) is not None:
            ends[given.size] = path
    paths = [ends[size] for size in sorted(ends, reverse=True)] or list(gave)[-2:-1]
    if not paths:
        raise Failure(f"no layer of the {type(model).__name__} gives features", "say which to compare: `layers=[…]`")
    return {path: gave[path].width for path in paths[-MOST_STAGES:]}


def _trial(model: nn.Module, image: Tensor) -> tuple[dict[str, _Given], int]:
    """The output of every layer for an image, in the order in which they finish, and the number of outputs."""
    gave: dict[str, _Given] = {}

    def note(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.ndim in (2, 3, 4):
                gave.pop(path, None)
                _, width, *size = as_map(output).shape
                gave[path] = _Given(width, (size[0], size[1]), output.ndim > 2)

        return hook

    # a parametrization, such as a mask, makes a layer's weights, and not features
    layers = [(path, module) for path, module in model.named_modules() if "parametrizations" not in path.split(".")]
    handles = [module.register_forward_hook(note(path)) for path, module in layers if path]
    try:
        with evaluating(model), torch.no_grad():
            outputs = model(image)
    finally:
        for handle in handles:
            handle.remove()
    return gave, outputs.shape[1]
