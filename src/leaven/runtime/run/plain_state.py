"""Plain Python state of a model's modules: attributes that change in training and are in no checkpoint.

Decides what a resumed run can't restore, so that it says so: numbers, texts, lists and generators in attributes, other
than in modules that save them themselves (`get_extra_state`).
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

PlainState = Mapping[str, Any]
_OF_TORCH = frozenset(vars(nn.Module()))
_OURS = "_leaven"
_MOST = 10_000  # items of a list that are looked at


def plain_state(model: nn.Module) -> dict[str, Any]:
    """The attributes of all modules that hold plain values, by their names, such that equal ones are the same state."""
    return dict(_attributes(model))


def changed(model: nn.Module, before: PlainState) -> list[str]:
    """The attributes that have another value than before."""
    return [name for name, value in _attributes(model) if name in before and before[name] != value]


def _attributes(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for path, module in model.named_modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            continue
        for name, value in vars(module).items():
            if name not in _OF_TORCH and not name.startswith(_OURS) and (seen := _value(value)) is not None:
                yield f"{path}.{name}" if path else name, seen


def _value(value: Any) -> Any:
    """A plain value, or something that tells it from others; None for anything else."""
    match value:
        case bool() | int() | float() | str():
            return type(value).__name__, value
        case torch.Generator():
            return value.get_state().numpy().tobytes()
        case list() | tuple() | set() | frozenset() | deque() | dict():
            is_plain = len(value) <= _MOST and all(isinstance(each, bool | int | float | str) for each in value)
            return len(value), repr(value) if is_plain and not isinstance(value, dict) else ""
    return None
