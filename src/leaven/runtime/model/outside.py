"""State of the user's code outside of a model: the variables of its Python modules, and the attributes of its classes.

A copy of a model has these in common with it. What a look at the copy changes there is put back.
"""

import copy
import functools
import os
import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leaven.runtime.failures import USER_FILE
from leaven.runtime.model.state import describe, has_known_version, state_of
from leaven.runtime.user_code import user_folders

_DATA = (
    *(bool, int, float, complex, str, bytes, type(None), list, tuple, dict, set, deque),
    *(Tensor, np.ndarray, np.generic, np.random.Generator, torch.Generator, random.Random),
)


def state_with_outside(model: nn.Module) -> dict[str, Any]:
    """The plain state of a model, and the variables of the user's code: of its files, and of the model's classes."""
    outside = {f"{label}.{name}": value for label, _, found in _spaces(model) for name, value in found.items()}
    return {**state_of(model), **describe(outside)}


class Outside:
    """The variables of the user's code as they are now."""

    def __init__(self, model: nn.Module) -> None:
        self._spaces = [(space, found, _copies(found)) for _, space, found in _spaces(model)]

    def restore(self) -> None:
        """Restore them, in the same objects."""
        for space, found, copies in self._spaces:
            for name in _data_in(space).keys() - found.keys():
                with suppress(AttributeError):
                    delattr(space, name)
            for name, kept in copies.items():
                if describe({"": vars(space).get(name)}) != describe({"": kept}):
                    _fill(found[name], kept)
                    setattr(space, name, found[name])


def bytes_outside(model: nn.Module) -> int:
    """How much memory a copy of these variables takes, by their tensors and arrays."""
    values = (value for _, _, found in _spaces(model) for value in found.values())
    return sum(value.nbytes for value in values if isinstance(value, Tensor | np.ndarray))


@contextmanager
def outside_kept(model: nn.Module) -> Iterator[None]:
    """Afterwards, the variables of the user's code are as before."""
    before = Outside(model)
    try:
        yield
    finally:
        before.restore()


def _spaces(model: nn.Module) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The modules and classes of the user's code, each with its name and its variables."""
    for module in _modules(model):
        name = str(vars(module).get("__name__", ""))
        yield name, module, _data_in(module)
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{value.__qualname__}", value, _data_in(value)


def _modules(model: nn.Module) -> list[ModuleType]:
    """The files of the user that a recipe imports, with what is beside them, and the modules of a model's classes."""
    classes = {owner for kind in {type(module) for module in model.modules()} for owner in kind.__mro__}
    names = {owner.__module__ for owner in classes if not has_known_version(owner.__module__)}
    if user_folders:
        names.update(name for name, module in sys.modules.copy().items() if _is_in(user_folders, name, module))
    found = (sys.modules.get(name) for name in sorted(names))
    return [module for module in found if isinstance(module, ModuleType)]


def _is_in(folders: set[str], name: str, module: ModuleType) -> bool:
    if has_known_version(name) or not isinstance(module, ModuleType):
        return False
    file = vars(module).get("__file__")
    return isinstance(file, str) and _folder_of(file) in folders


@functools.cache  # thousands of modules are asked several times a run
def _folder_of(file: str) -> str:
    return os.path.normpath(os.path.dirname(file))


def _data_in(space: Any) -> dict[str, Any]:
    found = {name: value for name, value in vars(space).items() if not name.startswith("__") and name != USER_FILE}
    return {name: value for name, value in found.items() if _is_data(value)}


def _is_data(value: Any) -> bool:
    own = type(value).__module__
    return isinstance(value, _DATA) or (own != "builtins" and not has_known_version(own) and hasattr(value, "__dict__"))


def _copies(found: Mapping[str, Any]) -> dict[str, Any]:
    copies = {}
    for name, value in found.items():
        with suppress(Exception):  # what can't be copied can't be put back
            copies[name] = copy.deepcopy(value)
    return copies


def _fill(value: Any, kept: Any) -> None:
    """Give an object that can change the content that it had."""
    if isinstance(value, list | deque):
        value.clear()
        value.extend(kept)
    elif isinstance(value, dict | set):
        value.clear()
        value.update(kept)
    elif isinstance(value, Tensor):
        value.data = kept.data
    elif isinstance(value, np.ndarray) and value.shape == kept.shape:
        value[...] = kept
    elif isinstance(value, torch.Generator):
        value.set_state(kept.get_state())
    elif isinstance(value, random.Random):
        value.setstate(kept.getstate())
    elif isinstance(value, np.random.Generator):
        value.bit_generator.state = kept.bit_generator.state
    elif hasattr(value, "__dict__"):
        vars(value).clear()
        vars(value).update(vars(kept))
