"""Objects of the user's own classes, and functions with variables of their own, that other objects lead to."""

import copy
import inspect
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import IterableDataset

from leaven.runtime.model.state import (
    cells_of,
    changed_names,
    content_of,
    has_known_version,
    loose_state,
    may_count,
    own_name,
)

_SOME = 200  # elements of a container that are looked at
_MOST = 5_000  # objects
_LEAVES = (Tensor, np.ndarray, types.ModuleType, type)


class OwnObjects:
    """The objects of the user's that some objects lead to, but for those inside of their plain state."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._objects = list(_found(roots))
        self._by_epoch = {id(each): _set_by_epoch(each) for each in self._objects if isinstance(each, IterableDataset)}

    def __bool__(self) -> bool:
        return bool(self._objects)

    def state(self) -> dict[str, Any]:
        """Their plain state, by the name of the class and of the attribute; what is large is described in part."""
        return {
            f"{_name(each)}.{name}": value
            for each in self._objects
            for name, value in loose_state(each).items()
            if name not in self._by_epoch.get(id(each), ())
        }


def _found(roots: Iterable[Any]) -> Iterator[Any]:
    seen: dict[int, Any] = {}  # which holds the objects, so that they stay the only ones with their identity
    left = deque(roots)
    while left and len(seen) < _MOST:
        value = left.popleft()
        if id(value) in seen or isinstance(value, _LEAVES):
            continue
        seen[id(value)] = value
        if _is_own(value):
            yield value
            left.extend(each for each in _inside(value) if not may_count(each))
        else:
            left.extend(_inside(value))


def _is_own(value: Any) -> bool:
    if inspect.isfunction(value):
        return not has_known_version(value.__module__) and bool(cells_of(value))
    return hasattr(value, "__dict__") and bool(own_name(type(value)))


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from islice(value.values(), _SOME)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from islice(value, _SOME)
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, types.MethodType):
        yield value.__self__
    elif inspect.isfunction(value):
        yield from map(content_of, cells_of(value).values())
    else:
        yield from islice(getattr(value, "__dict__", {}).values(), _SOME)


def _name(value: Any) -> str:
    return str(value.__qualname__ if inspect.isfunction(value) else type(value).__name__)


def _set_by_epoch(value: Any) -> set[str]:
    """The attributes that `set_epoch` sets, which a stream is told before it is read."""
    with suppress(Exception):  # of somebody's own class
        tried = copy.copy(value)
        tried.set_epoch(1)
        before = loose_state(tried)
        tried.set_epoch(2)
        return set(changed_names(before, loose_state(tried)))
    return set()
