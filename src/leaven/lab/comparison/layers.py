"""The layers of two models side by side: aligned by name, else by type and shape in their order, with their weights."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

import torch
from torch import Tensor, nn

from leaven.catalog.layers import Layers
from leaven.formats.finite_json import as_json
from leaven.tasks.reports import finite

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Layer:
    """A layer with parameters of its own."""

    path: str
    type: str
    shapes: Shapes  # of its parameters, by name
    flops: int | None = None  # for one sample
    weights: Mapping[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for _, shape in self.shapes)

    @property
    def words(self) -> str:
        """`Conv2d 16×3×3×3`: its type and the shape of its first parameter."""
        return f"{self.type} {'×'.join(map(str, self.shapes[0][1])) or 'scalar'}"

    @as_json
    def to_json(self) -> dict[str, Any]:
        shapes = {name: list(shape) for name, shape in self.shapes}
        return {"type": self.type, "shapes": shapes, "parameters": self.parameters, "flops": self.flops}


@dataclass(frozen=True)
class LayerPair:
    """A layer of A and that of B in its place; None where one model has none."""

    a: Layer | None
    b: Layer | None
    distance: float | None = None  # norm of the difference of their weights, relative to the norm of A's
    cosine: float | None = None  # of their weights

    @property
    def name(self) -> str:
        """The name that both have, or those of both."""
        names = dict.fromkeys(one.path for one in (self.a, self.b) if one is not None)
        return " / ".join(names)

    @property
    def is_same(self) -> bool:
        """Whether both have the layer, with the same shapes."""
        return self.a is not None and self.b is not None and self.a.shapes == self.b.shapes

    @as_json
    def to_json(self) -> dict[str, Any]:
        known = {"distance": self.distance, "cosine": self.cosine}
        sides = {name: one and {"name": one.path, **one.to_json()} for name, one in (("a", self.a), ("b", self.b))}
        return {**sides, "same_shape": self.is_same, **finite({k: v for k, v in known.items() if v is not None})}


def layers_of(model: nn.Module, flops: Mapping[str, int]) -> tuple[Layer, ...]:
    """The layers of a model that have parameters, in their order."""
    found = []
    for path, module in model.named_modules():
        if own := dict(module.named_parameters(recurse=False)):
            shapes = tuple((name, tuple(weight.shape)) for name, weight in own.items())
            weights = {name: weight.detach() for name, weight in own.items()}
            found.append(Layer(path, type(module).__name__, shapes, flops.get(path, 0), weights))
    return tuple(found)


def layers_of_recipe(layers: Layers) -> tuple[Layer, ...]:
    """The layers of a model that was never trained."""
    shapes: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    types = {}
    for one in layers.parameters:
        name = one.name.removeprefix(f"{one.module_path}.")
        shapes.setdefault(one.module_path, []).append((name, one.shape))
        types[one.module_path] = one.module_type
    return tuple(Layer(path, types[path], tuple(own), layers.flops.get(path)) for path, own in shapes.items())


def aligned_layers(a: Sequence[Layer], b: Sequence[Layer]) -> tuple[LayerPair, ...]:
    """The layers of A in their order, each with that of B, and after them those that only B has."""
    partner = _partners(a, b)
    taken = {one.path for one in partner.values()}
    pairs = [_paired(one, partner.get(one.path)) for one in a]
    return (*pairs, *(LayerPair(None, one) for one in b if one.path not in taken))


def _partners(a: Sequence[Layer], b: Sequence[Layer]) -> dict[str, Layer]:
    """The layer of B for each of A: of the same name and type; else of the same type and shapes, in turn."""
    by_path = {one.path: one for one in b}
    found = {one.path: by_path[one.path] for one in a if one.path in by_path and by_path[one.path].type == one.type}
    rest_a = [one for one in a if one.path not in found]
    rest_b = [one for one in b if one.path not in found]
    first, second = ([(one.type, one.shapes) for one in rest] for rest in (rest_a, rest_b))
    for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            found[rest_a[block.a + step].path] = rest_b[block.b + step]
    return found


def _paired(a: Layer, b: Layer | None) -> LayerPair:
    """The two with the distance of their weights, where names and shapes agree."""
    if b is None or a.path != b.path or a.shapes != b.shapes or not a.weights or not b.weights:
        return LayerPair(a, b)
    first, second = (torch.cat(list(_flat(one))) for one in (a, b))
    size, apart = float(first.norm()), float((second - first).norm())
    product = size * float(second.norm())
    cosine = float(first @ second) / product if product else math.nan
    return LayerPair(a, b, apart / size if size else (0.0 if not apart else math.inf), cosine)


def _flat(layer: Layer) -> Iterator[Tensor]:
    return (weight.double().flatten().cpu() for weight in layer.weights.values())
