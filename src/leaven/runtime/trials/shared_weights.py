"""Frozen weights that trials of a group have in the same memory: 32 trials of a large model need little more than one.

Only weights whose outputs are stored are shared, as nobody writes to them. Other frozen layers run with every batch,
and may have code that changes their weights.
"""

from collections.abc import Collection
from weakref import WeakKeyDictionary

from torch import nn

_shared: WeakKeyDictionary[nn.Module, list[nn.Parameter]] = WeakKeyDictionary()  # by the model that they belong to


def share_weights(model: nn.Module, other: nn.Module, names: Collection[str]) -> None:
    """Let some parameters of a model be in memory where those of another one are, which are equal."""
    _shared[model] = [model.get_parameter(name) for name in names]
    for name in names:
        model.get_parameter(name).data = other.get_parameter(name).data


def own_weights(model: nn.Module) -> None:
    """Let all parameters of a model be in memory of their own again."""
    for parameter in _shared.pop(model, ()):
        parameter.data = parameter.data.clone()
