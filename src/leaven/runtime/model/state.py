"""The plain state of a model: all that its modules keep besides parameters and buffers, as plain data.

Two models of the same layers compute the same if their weights and their plain state are the same, and a forward pass
that changes it is not the same pass twice. Numbers, containers, tensors, arrays, generators of random numbers,
functions with the variables that they hold, and objects with their attributes are told apart by their content, never by
where they are in memory: so what is found is the same in another process.
"""

import functools
import hashlib
import inspect
import random
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_SAME = ("leaven", "torch", "torchvision", "timm", "transformers", "peft", "numpy")
LIBRARIES = {**dict(zip(_SAME, _SAME, strict=True)), "pillow": "PIL"}  # whose version is known: how they are imported
_KNOWN = frozenset({*LIBRARIES.values(), *sys.stdlib_module_names, "builtins"})
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_LEFT_OUT = {  # of a module's attributes: what is state of another kind, or says nothing about a forward pass
    *("training", "_parameters", "_buffers", "_modules", "_compiled_call_impl", "_non_persistent_buffers_set"),
    *("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs"),
    *("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
}
_OF_TORCH = frozenset(vars(nn.Module()))
_OURS = "_leaven"  # how the attributes begin in which this library keeps notes
_PLAIN = (bool, int, float, complex, str, bytes, type(None), range, slice, torch.dtype, torch.device)
_PLAIN_TYPES = frozenset(_PLAIN)  # asked first: nearly all attributes are of these very types
_GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
_DEEPEST = 100  # values in each other
_COUNTING = (bool, int, float, str, list, tuple, set, frozenset, deque, dict, *_GENERATORS)


@functools.cache
def has_known_version(module: str) -> bool:
    """Whether a Python module belongs to a library whose version is known, or to Python itself."""
    return module.partition(".")[0] in _KNOWN


def own_class(model: nn.Module) -> str:
    """A class in a model that does not come from a library whose version is known; empty where there is none."""
    kinds = dict.fromkeys(type(module) for module in model.modules())
    return next((name for kind in kinds if (name := _own(kind))), "")


def _own(kind: type) -> str:
    return next((each.__qualname__ for each in kind.__mro__ if not has_known_version(each.__module__)), "")


def state_of(model: nn.Module) -> dict[str, Any]:
    """The plain state of all modules, by their path and the name of the attribute.

    An attribute that can't be read, or is nested too deeply, is not the same as any other, nor as itself later.
    """
    return _Walk(model).state()


def unsaved_state(model: nn.Module) -> dict[str, Any]:
    """The plain state of user code that training may count or collect in, and that no checkpoint has.

    Modules with a `get_extra_state` save their own. Other attributes, such as masks, are built again when needed.
    """
    walk = _Walk(model)
    return {
        _at(path, name): walk.of_what_can_be_read(value)
        for path, module in model.named_modules()
        if _own(type(module)) and type(module).get_extra_state is nn.Module.get_extra_state
        for name, value in _attributes(module)
        if name not in _OF_TORCH and isinstance(value, _COUNTING)
    }


def changed_state(model: nn.Module, before: Mapping[str, Any]) -> list[str]:
    """The names of what `unsaved_state` found before, and is another one now."""
    now = unsaved_state(model)
    return [name for name in differences(before, now) if name in now]


def describe(values: Mapping[str, Any]) -> dict[str, Any]:
    """Some values as plain data, as `state_of` describes those of a model; None for what can't be read."""
    walk = _Walk(nn.Module())
    return {name: walk.of_what_can_be_read(value) for name, value in values.items()}


def functions_in(model: nn.Module) -> list[tuple[str, Any]]:
    """The functions that modules keep as hooks or in attributes, by where they are."""
    walk = _Walk(model)
    walk.state()
    return walk.functions


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The attributes in which two states differ."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a model, by name."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def digest(tensor: Tensor) -> str:
    """A digest of the values of a tensor."""
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    facts = f"{tensor.dtype} {tuple(tensor.shape)}"
    return hashlib.blake2b(raw.data, digest_size=20, person=facts.encode()[:16]).hexdigest() + facts


class _NotDescribed(Exception):
    """What is in a value can't be read."""


class _Walk:
    """Describes objects that refer to each other, each of them once."""

    def __init__(self, model: nn.Module) -> None:
        self.functions: list[tuple[str, Any]] = []
        self._modules = dict(model.named_modules())
        self._paths = {id(module): path for path, module in self._modules.items()}
        self._seen: dict[int, tuple[int, Any]] = {}  # by identity; the object is held, so that it stays the only one
        self._at = ""
        self._depth = 0

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path, module in self._modules.items():
            for name, value in _attributes(module):
                self._at = _at(path, name)
                found[self._at] = self.of_what_can_be_read(value, otherwise=object())
        return found

    def of_what_can_be_read(self, value: Any, otherwise: object = None) -> Any:
        try:
            return self.of(value)
        except _NotDescribed:
            return otherwise

    def of(self, value: Any) -> Any:
        """One value as plain data."""
        if _is_plain(value):
            return repr(value)
        if isinstance(value, Tensor):
            return _of_tensor(value)
        if (leaf := _of_leaf(value)) is not None:
            return leaf
        if id(value) in self._paths:
            return f"module {self._paths[id(value)]}"
        if id(value) in self._seen:
            return f"again {self._seen[id(value)][0]}"
        self._seen[id(value)] = len(self._seen), value
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise _NotDescribed
            return self._of_compound(value)
        except Exception:  # of somebody's own container or attribute
            raise _NotDescribed from None
        finally:
            self._depth -= 1

    def _of_compound(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {"dict": [[self.of(key), self.of(each)] for key, each in value.items()]}
        if isinstance(value, list | tuple | deque):
            return [type(value).__name__, *map(self.of, value)]
        if isinstance(value, set | frozenset):
            return ["set", *sorted(map(str, map(self.of, value)))]
        if isinstance(value, functools.partial):
            return ["partial", self.of(value.func), self.of(value.args), self.of(value.keywords)]
        if isinstance(value, types.MethodType):
            return ["method", self.of(value.__self__), value.__func__.__qualname__]
        if inspect.isfunction(value):
            self.functions.append((self._at, value))
            return ["function", _name(value), self.of(_held(value)), self.of(value.__defaults__)]
        if inspect.isclass(value) or inspect.isbuiltin(value):
            return ["name", _name(value)]
        return self._of_object(value)

    def _of_object(self, value: Any) -> Any:
        if isinstance(value, nn.Module):
            attributes = {name: self.of(each) for name, each in _attributes(value)}
            inner = {**value._parameters, **value._buffers, **value._modules}
            return [_name(type(value)), attributes, {name: self.of(each) for name, each in inner.items()}]
        slots = {name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)}
        inside = {**slots, **getattr(value, "__dict__", {})}
        told = "" if inside or " at 0x" in (text := _text(value)) else text
        return [_name(type(value)), told, {name: self.of(each) for name, each in inside.items()}]


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if name in _HOOKS:
            if value:
                yield name, list(value.values())
        elif name not in _LEFT_OUT and not name.startswith(_OURS) and not _is_ours(value):
            yield name, value


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_plain(value: Any) -> bool:
    """Whether a value can't change, and has nothing inside that can."""
    kind = type(value)
    if kind is tuple:
        return _PLAIN_TYPES.issuperset(map(type, value))
    return kind in _PLAIN_TYPES or isinstance(value, _PLAIN)


def _is_ours(value: Any) -> bool:
    """Whether an attribute is a method that this library has put in the place of the module's own."""
    return isinstance(value, functools.partial) and getattr(value.func, "__module__", "").startswith("leaven.")


def _of_tensor(value: Tensor) -> Any:
    try:
        return ["tensor", digest(value)]
    except Exception:  # without values: on the meta device, or of a layer that has not seen a batch
        return ["tensor", type(value).__name__]


def _of_leaf(value: Any) -> Any:
    """Values that are described without looking at what they refer to; None for others."""
    if isinstance(value, torch.Generator):
        return ["generator", digest(value.get_state())]
    if isinstance(value, random.Random):
        return ["generator", hashlib.blake2b(repr(value.getstate()).encode(), digest_size=20).hexdigest()]
    if isinstance(value, np.random.Generator):
        return ["generator", str(value.bit_generator.state)]
    if isinstance(value, np.random.RandomState):
        return ["generator", str(value.get_state(legacy=False))]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return ["array", str(value.dtype), value.shape, hashlib.blake2b(value.tobytes(), digest_size=20).hexdigest()]
    if isinstance(value, np.generic):
        return repr(value)
    return ["module", value.__name__] if isinstance(value, types.ModuleType) else None


def _held(function: Any) -> dict[str, Any]:
    """The variables that a function holds, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: _held_by(cell) for name, cell in cells}


def _held_by(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _text(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # of somebody's own `__repr__`
        return ""
