"""State of the user's code outside of a model: the variables of its Python modules, the attributes of its classes and
functions, and the closures and defaults of functions.

A model and its copy share these variables, and so do trials in one process. They are restored after a copy has run, and
exchanged whenever another trial has its turn.
"""

import argparse
import array
import contextvars
import copy
import functools
import itertools
import os
import random
import sys
import sysconfig
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leaven.runtime.failures import USER_FILE
from leaven.runtime.model.state import ModelState, cells_of, content_of, describe, has_known_version
from leaven.runtime.user_code import user_folders

_DATA = (
    *(bool, int, float, complex, str, bytes, bytearray, type(None), list, tuple, dict, set, deque, SimpleNamespace),
    *(Tensor, np.ndarray, np.generic, nn.Module, Iterator, array.array, argparse.Namespace, functools.partial),
    *(threading.local, contextvars.ContextVar),  # which can't be copied
    *(np.random.Generator, np.random.RandomState, torch.Generator, random.Random),
)
_NOT_COPIED = object()
_DEFAULT = "default "  # how the names of a function's defaults begin
_PROFILED = "hooked"  # torch's note at the first step of an optimizer of the user's
_DEEPEST = 10  # functions in each other's closures
_LIBRARIES = tuple(f"{os.path.normpath(sysconfig.get_path(name))}{os.sep}" for name in ("stdlib", "purelib", "platlib"))
Variables = dict[str, Any]
_Space = tuple[str, Any, Variables]  # its name, what has the variables, and those that are data


def state_with_outside(model: nn.Module) -> dict[str, Any]:
    """The plain state of a model, and the variables of the user's code."""
    state = ModelState(model)
    return {**state.values, **_described(spaces_of(model, state.code))}


def outside_state(model: nn.Module) -> dict[str, Any]:
    """The variables of the user's code, as plain data, by name."""
    return _described(_spaces(model))


class OutsideState:
    """The same without those of a model, asked again and again: modules are looked for once, which takes milliseconds,
    and what is large is described in part."""

    def __init__(self) -> None:
        self._spaces = [(label, space) for label, space, _ in _spaces()]

    def now(self) -> dict[str, Any]:
        return _described(((label, space, _data_in(space)) for label, space in self._spaces), in_part=True)


class UserVariables:
    """The variables of the user's code as they are now; without a model, those of the files that a recipe imports."""

    def __init__(self, model: nn.Module | None = None, spaces: "Iterable[_Space] | None" = None) -> None:
        self._modules = len(sys.modules)
        self._spaces = list(_spaces(model) if spaces is None else spaces)
        memo: dict[int, Any] = {}
        self._copies = [_copies(variables, memo) for _, _, variables in self._spaces]
        self._described = [describe(variables) for _, _, variables in self._spaces]

    def again(self) -> "UserVariables":
        """The same, later. Modules are not looked for unless some were imported: that takes milliseconds."""
        known = [(label, space, _data_in(space)) for label, space, _ in self._spaces]
        return UserVariables(spaces=known if len(sys.modules) == self._modules else None)

    @property
    def not_copied(self) -> str:
        """A variable that can't be copied, and so not be restored; empty where there is none."""
        spaces = zip(self._spaces, self._copies, strict=True)
        names = (f"{label}.{name}" for (label, _, _), kept in spaces for name in kept if kept[name] is _NOT_COPIED)
        return next(names, "")

    def is_now(self) -> bool:
        """Whether the variables are still as they were. Python modules that were imported since then are others."""
        known = {label for label, _, _ in self._spaces}
        if len(sys.modules) != self._modules and not known.issuperset(label for label, _, _ in _spaces()):
            return False
        spaces = zip(self._spaces, self._described, strict=True)
        return all(describe(_data_in(space)) == described for (_, space, _), described in spaces)

    def restore(self) -> None:
        """Restore the variables; objects that can change are the same ones, with their content of then."""
        memo: dict[int, Any] = {}
        for (_, _, variables), copies in zip(self._spaces, self._copies, strict=True):
            memo.update({id(kept): variables[name] for name, kept in copies.items() if _is_filled(variables[name])})
        for (_, space, variables), copies, described in zip(self._spaces, self._copies, self._described, strict=True):
            now = _data_in(space)
            for name in now.keys() - variables.keys():
                with suppress(AttributeError):
                    _delete(space, name)
            now = describe(now)
            for name, kept in copies.items():
                if now.get(name) != described[name] and kept is not _NOT_COPIED:
                    _set(space, name, _filled(variables[name], kept, memo))


def holds_variables(model: nn.Module) -> bool:
    """Whether a layer has an object as an attribute that is a variable, too: a copy of the model has another one."""
    objects = {id(value) for _, _, variables in _spaces(model) for value in variables.values() if _is_filled(value)}
    inside = ({**vars(module), **module._parameters, **module._buffers} for module in model.modules())
    return any(id(value) in objects for values in inside for value in values.values())


def bytes_outside(spaces: "Iterable[_Space] | None" = None) -> int:
    """How much memory a copy of these variables takes, by their tensors and arrays."""
    values = [value for _, _, found in (_spaces() if spaces is None else spaces) for value in found.values()]
    tensors = [each for value in values if isinstance(value, nn.Module) for each in value.state_dict().values()]
    return sum(each.nbytes for each in (*values, *tensors) if isinstance(each, Tensor | np.ndarray))


@contextmanager
def outside_kept(model: nn.Module) -> Iterator[None]:
    """Afterwards, the variables of the user's code are as before."""
    before = UserVariables(model)
    try:
        yield
    finally:
        before.restore()


# -- where the variables are: in the dictionaries of modules, in classes, and in functions


def _spaces(model: nn.Module | None = None) -> Iterator[_Space]:
    """The modules, classes and functions of the user's code, each with its name and its variables."""
    return spaces_of(model, ModelState(model).code if model is not None else ())


def spaces_of(model: nn.Module | None, code: Iterable[Any]) -> Iterator[_Space]:
    """The same, where the classes and functions that the model's layers keep are known. Variables may be layers of the
    model itself, which are not outside."""
    seen, inside = set[int](), set(map(id, model.modules() if model is not None else ()))
    for label, space in _owners(model, code):
        if id(space) not in seen:
            seen.add(id(space))
            yield label, space, {name: each for name, each in _data_in(space).items() if id(each) not in inside}


def _described(spaces: Iterable[_Space], *, in_part: bool = False) -> dict[str, Any]:
    values = {f"{label}.{name}": value for label, _, found in spaces for name, value in found.items()}
    return describe(values, in_part=in_part)


def _owners(model: nn.Module | None, code: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for module in _modules(model):
        name = str(module.get("__name__", ""))
        yield name, module
        for value in list(module.values()):
            if isinstance(value, type | FunctionType) and value.__module__ == name:
                yield from _with_functions(value)
    for value in code:
        if not has_known_version(str(value.__module__)):
            yield from _with_functions(value)


def _with_functions(value: type | FunctionType) -> Iterator[tuple[str, Any]]:
    """A class or function, and those functions in it that have variables."""
    yield _label(value), value
    inside = [_function_of(member) for member in vars(value).values()] if isinstance(value, type) else _inside(value)
    for _ in range(_DEEPEST):
        functions = [each for each in inside if isinstance(each, FunctionType)]
        yield from ((_label(function), function) for function in functions if _data_in(function))
        inside = [each for function in functions for each in _inside(function)]


def _label(value: type | FunctionType) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _function_of(member: Any) -> Any:
    """The function of a method, class method, static method or property."""
    return getattr(member, "__func__", getattr(member, "fget", member))


def _inside(function: FunctionType) -> list[Any]:
    """The values in a function's closure, and the function that it wraps."""
    return [*map(content_of, _cells(function).values()), vars(function).get("__wrapped__")]


def _cells(function: FunctionType) -> dict[str, CellType]:
    return {name: cell for name, cell in cells_of(function).items() if name != "__class__"}


def _modules(model: nn.Module | None) -> list[Variables]:
    """The files of the user that a recipe imports, with what is beside and below them, and the modules of a model's
    classes."""
    modules: dict[int, Variables] = {}
    if user_folders:
        others, folders = sorted(sys.modules.copy().items()), frozenset(user_folders)
        modules = {id(vars(module)): vars(module) for name, module in others if _is_in(folders, name, module)}
    kinds = {type(module) for module in model.modules()} if model is not None else set()
    for owner in {owner for kind in kinds for owner in kind.__mro__ if not has_known_version(owner.__module__)}:
        for variables in _variables_of(owner):
            modules.setdefault(id(variables), variables)
    return sorted(modules.values(), key=lambda variables: str(variables.get("__name__", "")))


def _variables_of(owner: type) -> Iterator[Variables]:
    """The variables of the module of a class, and of those in the same folder that it imports. A bundle's modules are
    not in `sys.modules`, but their functions know them."""
    spaces = [value.__globals__ for value in vars(owner).values() if isinstance(value, FunctionType)]
    spaces += [vars(sys.modules[name]) for name in [owner.__module__] if name in sys.modules and not spaces]
    for variables in {id(space): space for space in spaces}.values():
        if not has_known_version(str(variables.get("__name__", ""))):
            yield variables
            folders = frozenset({os.path.normpath(os.path.dirname(str(variables.get("__file__", ""))))})
            beside = [each for each in list(variables.values()) if isinstance(each, ModuleType)]
            yield from (vars(each) for each in beside if _is_in(folders, each.__name__, each))


def _is_in(folders: frozenset[str], name: str, module: ModuleType) -> bool:
    if has_known_version(name) or not isinstance(module, ModuleType):
        return False
    file = vars(module).get("__file__")
    return isinstance(file, str) and _is_below(file, folders)


@functools.cache  # thousands of modules are asked several times a run
def _is_below(file: str, folders: frozenset[str]) -> bool:
    """Whether a file is in one of some folders, and not in an environment there."""
    path = os.path.normpath(file)
    return not path.startswith(_LIBRARIES) and any(path.startswith(f"{folder}{os.sep}") for folder in folders)


def _data_in(space: Any) -> Variables:
    values = dict(space if isinstance(space, dict) else vars(space))
    if isinstance(space, FunctionType):
        values |= {f"{_DEFAULT}{at}": value for at, value in enumerate(space.__defaults__ or ())}
        values |= {f"{_DEFAULT}{name}": value for name, value in (space.__kwdefaults__ or {}).items()}
        values |= {name: content_of(cell) for name, cell in _cells(space).items()}
    return {
        name: value
        for name, value in values.items()
        if not name.startswith("__") and name not in (USER_FILE, _PROFILED) and _is_data(value)
    }


def _is_data(value: Any) -> bool:
    if isinstance(value, _DATA):
        return True
    own = type(value).__module__
    return own != "builtins" and not has_known_version(own) and hasattr(value, "__dict__")


def _set(space: Any, name: str, value: Any) -> None:
    if isinstance(space, dict):
        space[name] = value
    elif isinstance(space, FunctionType) and name in _cells(space):
        _cells(space)[name].cell_contents = value
    elif not name.startswith(_DEFAULT):  # a default is the same object, with another content
        setattr(space, name, value)


def _delete(space: Any, name: str) -> None:
    if isinstance(space, dict):
        del space[name]
    else:
        delattr(space, name)


# -- copies of variables


def _copies(found: Variables, memo: dict[int, Any]) -> Variables:
    """Copies of some variables; an object that several of them share is copied once."""
    copies = {}
    for name, value in found.items():
        copies[name] = _NOT_COPIED
        if not isinstance(value, Iterator) or isinstance(value, itertools.count):  # others don't tell where they are
            with suppress(Exception):
                copies[name] = copy.deepcopy(value, memo)
    return copies


def _is_filled(value: Any) -> bool:
    """Whether an object can be given another content."""
    kinds = (list, deque, dict, set, bytearray, Tensor, np.ndarray, torch.Generator, random.Random)
    numpys = (np.random.Generator, np.random.RandomState)
    has_attributes = hasattr(value, "__dict__") and not isinstance(value, Iterator | functools.partial)
    return isinstance(value, (*kinds, *numpys)) or has_attributes


def _filled(value: Any, kept: Any, memo: dict[int, Any]) -> Any:
    """The object itself, with the content of its copy, where it can change; else another copy. `memo` maps the
    identities of copies to the objects."""
    if not _is_filled(value):
        return copy.deepcopy(kept, memo)

    def again(each: Any) -> Any:
        return copy.deepcopy(each, memo)

    if isinstance(value, list | deque | bytearray):
        value.clear()
        value.extend(map(again, kept))
    elif isinstance(value, dict):
        value.clear()
        value.update({again(key): again(each) for key, each in kept.items()})
    elif isinstance(value, set):
        value.clear()
        value.update(map(again, kept))
    elif isinstance(value, Tensor):
        value.data = kept.data.clone()
    elif isinstance(value, np.ndarray) and value.shape == kept.shape:
        value[...] = kept
    elif isinstance(value, torch.Generator | np.random.RandomState):
        value.set_state(kept.get_state())
    elif isinstance(value, random.Random):
        value.setstate(kept.getstate())
    elif isinstance(value, np.random.Generator):
        value.bit_generator.state = kept.bit_generator.state
    elif hasattr(value, "__dict__"):
        attributes = {name: again(each) for name, each in vars(kept).items()}
        vars(value).clear()
        vars(value).update(attributes)
    return value
