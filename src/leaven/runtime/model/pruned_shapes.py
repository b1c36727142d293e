"""A pruned model has the layers of its architecture with fewer channels: in which sizes it differs from a full one.

Only integers are written down, and they only ever shrink a model: what a file says can neither add to a model nor run
anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from leaven.formats.layer_names import is_under

PrunedShapes = Mapping[str, Mapping[str, int | list[int]]]  # of layers, by the names of their attributes


def pruned_shapes(model: nn.Module, full: nn.Module) -> dict[str, dict[str, int | list[int]]]:
    """The sizes in which a model is smaller than a full one; empty where all their weights have the same shapes."""
    wanted, there = full.state_dict(), model.state_dict()
    if all(name not in there or there[name].shape == value.shape for name, value in wanted.items()):
        return {}
    others = dict(full.named_modules())
    found = {path: _smaller(module, others[path]) for path, module in model.named_modules() if path in others}
    return {path: sizes for path, sizes in found.items() if sizes}


def _smaller(module: nn.Module, other: nn.Module) -> dict[str, int | list[int]]:
    sizes: dict[str, int | list[int]] = {}
    for name, value in vars(module).items():
        before = vars(other).get(name)
        if _is_within(value, before) and value != before:
            sizes[name] = list(value) if isinstance(value, tuple) else value
    return sizes


def shrink(model: nn.Module, shapes: PrunedShapes, weights: Mapping[str, Tensor], new: Sequence[str] = ()) -> None:
    """Give a full model the pruned shapes, and its weights the shapes of those given; raises ValueError where these do
    not fit.

    A layer under the paths in `new` keeps its number of outputs; only its inputs are pruned.
    """
    modules = dict(model.named_modules())
    for path, sizes in shapes.items():
        if path not in modules:
            raise ValueError(f"there is no layer {path} to shrink")
        for name, value in sizes.items():
            before = vars(modules[path]).get(name)
            size = tuple(value) if isinstance(value, list) else value
            if not _is_within(size, before):
                raise ValueError(f"{path}.{name} can't become {value}")
            setattr(modules[path], name, size)
    for name, value in list(model.state_dict(keep_vars=True).items()):
        if name in weights and value.dim() == weights[name].dim():
            shape = list(weights[name].shape)
            if is_under(name, new):
                shape[:1] = value.shape[:1]
            if list(value.shape) != shape:
                _narrow(modules, name, value, shape)


def _narrow(modules: Mapping[str, nn.Module], name: str, value: Tensor, shape: list[int]) -> None:
    """Replace a weight by its first entries in each dimension."""
    if any(not 1 <= side <= before for side, before in zip(shape, value.shape, strict=True)):
        raise ValueError(f"{name} can't become {'×'.join(map(str, shape))}")
    narrowed = value.detach()[tuple(slice(side) for side in shape)].clone()
    path, _, key = name.rpartition(".")
    is_parameter = isinstance(value, nn.Parameter)
    setattr(modules[path], key, nn.Parameter(narrowed, value.requires_grad) if is_parameter else narrowed)


def _is_within(value: Any, before: Any) -> bool:
    """Whether a value is a size, and not more than it was."""
    if isinstance(value, tuple) and isinstance(before, tuple) and len(value) == len(before) and value:
        return all(_is_within(one, other) for one, other in zip(value, before, strict=True))
    return type(value) is int and type(before) is int and 1 <= value <= before
