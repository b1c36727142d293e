"""A net that is smaller than its description builds it: by which sizes, and how a fresh one is made as small.

A pruned net has the same layers with fewer channels. What is written down of it are whole numbers, and they only ever
shrink a net: what a file says can neither add to a model nor run anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from leaven.formats.layer_names import is_under

Sizes = Mapping[str, Mapping[str, int | list[int]]]  # of layers, by the names of their attributes


def sizes_of(module: nn.Module, fresh: nn.Module) -> dict[str, dict[str, int | list[int]]]:
    """In which numbers a net is smaller than a fresh one; nothing where all their weights are of the same shapes."""
    wanted, there = fresh.state_dict(), module.state_dict()
    if all(name not in there or there[name].shape == value.shape for name, value in wanted.items()):
        return {}
    others = dict(fresh.named_modules())
    found = {path: _smaller(part, others[path]) for path, part in module.named_modules() if path in others}
    return {path: numbers for path, numbers in found.items() if numbers}


def _smaller(part: nn.Module, other: nn.Module) -> dict[str, int | list[int]]:
    sizes: dict[str, int | list[int]] = {}
    for name, value in vars(part).items():
        before = vars(other).get(name)
        if _is_within(value, before) and value != before:
            sizes[name] = list(value) if isinstance(value, tuple) else value
    return sizes


def make_small(model: nn.Module, sizes: Sizes, weights: Mapping[str, Tensor], new: Sequence[str] = ()) -> None:
    """Give a fresh model the sizes, and its weights the shapes of those given; a ValueError where it has no such.

    A layer below the paths in `new` keeps the number of its outputs: only what it reads becomes less.
    """
    parts = dict(model.named_modules())
    for path, numbers in sizes.items():
        if path not in parts:
            raise ValueError(f"there is no layer {path} to be made smaller")
        for name, value in numbers.items():
            before = vars(parts[path]).get(name)
            size = tuple(value) if isinstance(value, list) else value
            if not _is_within(size, before):
                raise ValueError(f"{path}.{name} can't become {value}")
            setattr(parts[path], name, size)
    for name, value in list(model.state_dict(keep_vars=True).items()):
        if name in weights and value.dim() == weights[name].dim():
            shape = list(weights[name].shape)
            if is_under(name, new):
                shape[:1] = value.shape[:1]
            if list(value.shape) != shape:
                _narrow(parts, name, value, shape)


def _narrow(parts: Mapping[str, nn.Module], name: str, value: Tensor, shape: list[int]) -> None:
    """Replace a weight by as much of it as the shape says."""
    if any(not 1 <= side <= before for side, before in zip(shape, value.shape, strict=True)):
        raise ValueError(f"{name} can't become {'×'.join(map(str, shape))}")
    less = value.detach()[tuple(slice(side) for side in shape)].clone()
    path, _, key = name.rpartition(".")
    is_trained = isinstance(value, nn.Parameter)
    setattr(parts[path], key, nn.Parameter(less, value.requires_grad) if is_trained else less)


def _is_within(value: Any, before: Any) -> bool:
    """Whether a value is a size, and not more than it was."""
    if isinstance(value, tuple) and isinstance(before, tuple) and len(value) == len(before) and value:
        return all(_is_within(one, other) for one, other in zip(value, before, strict=True))
    return type(value) is int and type(before) is int and 1 <= value <= before
