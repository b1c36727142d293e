"""The plain state of a model: all that its modules keep besides parameters and buffers, as plain data.

Two models of the same layers compute the same if their weights and their plain state are the same, and a forward pass
that changes the state can't be left out. Numbers, containers, tensors, arrays, generators of random numbers, functions
with their closures, and objects with their attributes are compared by content, never by identity: another process
describes the same state in the same way.
"""

import enum
import functools
import hashlib
import inspect
import math
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_SAME = ("leaven", "torch", "torchvision", "timm", "transformers", "peft", "numpy")
LIBRARIES = {**{name: name for name in _SAME}, "pillow": "PIL"}  # whose version is known: how they are imported
_KNOWN = frozenset({*LIBRARIES.values(), *sys.stdlib_module_names, "builtins"})
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
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
_DEEPEST = 100  # nested values
_LARGE = 1 << 20  # bytes of a tensor or an array
_SOME = 200  # elements that stand for a large container
_MOST = 5_000  # values inside of one that are looked at, where a part is enough
_COUNTING = (
    *(bool, int, float, str, list, tuple, set, frozenset, deque, dict, Iterator, Tensor, np.ndarray),
    *_GENERATORS,
)
_OF_OPTIMIZERS = frozenset(vars(torch.optim.SGD([torch.zeros(1)])))


@functools.cache
def has_known_version(module: str) -> bool:
    """Whether a Python module belongs to a library whose version is known, or to Python itself."""
    return module.partition(".")[0] in _KNOWN


def own_class(model: nn.Module) -> str:
    """A class in a model that does not come from a library whose version is known; empty where there is none."""
    kinds = dict.fromkeys(type(module) for module in model.modules())
    return next((name for kind in kinds if (name := own_name(kind))), "")


def own_name(kind: type) -> str:
    """The name of the class that is not of a known library, of a class or of those that it inherits from; or empty."""
    return next((each.__qualname__ for each in kind.__mro__ if not has_known_version(each.__module__)), "")


def state_of(model: nn.Module) -> dict[str, Any]:
    """The plain state of all modules, by their path and the name of the attribute.

    An attribute that can't be read, or is nested too deeply, is not the same as any other, nor as itself later.
    """
    return ModelState(model).values


def unsaved_state(owner: Any) -> dict[str, Any]:
    """The plain state of a model, loss or optimizer of the user's that training may count or collect in, and that no
    checkpoint has.

    Modules with a `get_extra_state` save their own.
    """
    walk = _Walk(owner if isinstance(owner, nn.Module) else nn.Module())
    state = _state_of_modules(owner, is_saved=True) if isinstance(owner, nn.Module) else _state_of_object(owner)
    return {name: walk.of_what_can_be_read(value) for name, value in state if may_count(value)}


def loose_state(owner: Any, model: nn.Module | None = None) -> dict[str, Any]:
    """The same of an object of which checkpoints have nothing, without the layers of a model that it may refer to; what
    is large is described in part, which is quick."""
    walk = _Walk(model or (owner if isinstance(owner, nn.Module) else nn.Module()), in_part=True)
    state = _state_of_modules(owner, is_saved=False) if isinstance(owner, nn.Module) else _state_of_object(owner)
    return {name: walk.of_what_can_be_read(value) for name, value in state if may_count(value)}


def _state_of_modules(model: nn.Module, *, is_saved: bool) -> Iterator[tuple[str, Any]]:
    for path, module in model.named_modules():
        saves_own = is_saved and type(module).get_extra_state is not nn.Module.get_extra_state
        if own_name(type(module)) and not saves_own:
            unsaved = module._non_persistent_buffers_set if is_saved else module._buffers
            buffers = ((name, module._buffers.get(name)) for name in sorted(unsaved))
            for name, value in (*_attributes(module), *buffers):
                if name not in _OF_TORCH:
                    yield _at(path, name), value


def _state_of_object(owner: Any) -> Iterator[tuple[str, Any]]:
    saved = _OF_OPTIMIZERS if isinstance(owner, torch.optim.Optimizer) else ()
    if inspect.isfunction(owner):
        yield from ((name, content_of(cell)) for name, cell in cells_of(owner).items())
    elif own_name(type(owner)):
        for name, value in getattr(owner, "__dict__", {}).items():
            if name not in saved and not isinstance(getattr(type(owner), name, None), functools.cached_property):
                yield name, value


def may_count(value: Any) -> bool:
    """Whether a value may be such state, and not an object of a library, which is looked into elsewhere."""
    kind = type(value)
    return isinstance(value, _COUNTING) or (not inspect.isroutine(value) and not has_known_version(kind.__module__))


def changed_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of state that has changed, without tensors and files that were None before: such as a mask, they are
    made again when they are needed."""
    return [name for name in differences(before, now) if name in now and not _is_built(before.get(name), now[name])]


def _is_built(before: Any, now: Any) -> bool:
    if before not in (None, repr(None)) or not isinstance(now, list):
        return False
    return now[0] in ("tensor", "array") or _is_handle(now)


def _is_handle(described: Any) -> bool:
    """Whether an object keeps nothing that Python sees, as an open file does, or only such objects."""
    is_object = isinstance(described, list) and len(described) == 3 and isinstance(described[2], dict)
    return is_object and "." in described[0] and all(map(_is_handle, described[2].values()))


def describe(values: Mapping[str, Any], *, in_part: bool = False) -> dict[str, Any]:
    """Some values as plain data, as `state_of` describes those of a model; None for what can't be read."""
    walk = _Walk(nn.Module(), in_part=in_part)
    return {name: walk.of_what_can_be_read(value) for name, value in values.items()}


class ModelState:
    """The plain state of all modules as it is now, with the objects that keep it: `values` is what `state_of` returns,
    `functions` are those that modules keep as hooks or in attributes, by where they are, and `code` has them and the
    classes there."""

    def __init__(self, model: nn.Module) -> None:
        self._walk = _Walk(model)  # which holds the objects, so that they stay the only ones with their identity
        self.values = self._walk.state()
        self.functions = self._walk.functions
        self.code = [*self._walk.classes, *(function for _, function in self.functions)]

    def shared_with(self, other: "ModelState") -> str:
        """Where both refer to the same object, which may change; empty where they do not."""
        return next((where for key, where in self._walk.changing.items() if key in other._walk.changing), "")


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
    """A value can't be read."""


class _Walk:
    """Describes objects that refer to each other, each of them once."""

    def __init__(self, model: nn.Module, *, in_part: bool = False) -> None:
        self.functions: list[tuple[str, Any]] = []
        self.classes: list[type] = []
        self.changing: dict[int, str] = {}  # where objects are that may change, by identity
        self._modules = dict(model.named_modules())
        self._paths = {id(module): path for path, module in self._modules.items()}
        self._seen: dict[int, tuple[int, Any]] = {}  # by identity; the object is held, so that it stays the only one
        self._at = ""
        self._in_part = in_part
        self._left = _MOST
        self._depth = 0
        self._of_functions = 0  # nested so deeply: copies share closures

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for path, module in self._modules.items():
            for name, value in _attributes(module):
                self._at = _at(path, name)
                is_plain = is_unchanging(value)
                state[self._at] = repr(value) if is_plain else self.of_what_can_be_read(value, otherwise=object())
        return state

    def of_what_can_be_read(self, value: Any, otherwise: object = None) -> Any:
        self._left = _MOST
        try:
            return self.of(value)
        except _NotDescribed:
            return otherwise

    def of(self, value: Any) -> Any:
        """One value as plain data."""
        if is_unchanging(value):
            return repr(value)
        if self._in_part:
            self._left -= 1
            if self._left < 0:
                return "more"
            value = _part_of(value)
        if isinstance(value, Tensor):
            return _of_tensor(value)
        if (leaf := _of_leaf(value)) is not None:
            return leaf
        if id(value) in self._paths:
            return f"module {self._paths[id(value)]}"
        if id(value) in self._seen:
            return f"again {self._seen[id(value)][0]}"
        self._seen[id(value)] = len(self._seen), value
        if not self._of_functions and _may_change(value):
            self.changing[id(value)] = self._at
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
            return self._of_function(value)
        if inspect.isclass(value):
            self.classes.append(value)
            return ["name", _name(value)]
        if inspect.isbuiltin(value):
            return ["name", _name(value)]
        return self._of_object(value)

    def _of_function(self, value: Any) -> Any:
        self.functions.append((self._at, value))
        self._of_functions += 1
        closure = {name: content_of(cell) for name, cell in cells_of(value).items()}
        try:
            return ["function", _name(value), self.of(closure), self.of(value.__defaults__)]
        finally:
            self._of_functions -= 1

    def _of_object(self, value: Any) -> Any:
        if isinstance(value, nn.Module):
            attributes = {name: self.of(each) for name, each in _attributes(value)}
            inner = {**value._parameters, **value._buffers, **value._modules}
            return [_name(type(value)), attributes, {name: self.of(each) for name, each in inner.items()}]
        slots = {name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)}
        inside = {**slots, **getattr(value, "__dict__", {})}
        shown = "" if inside or " at 0x" in (text := _text(value)) else text  # an address differs between processes
        return [_name(type(value)), shown, {name: self.of(each) for name, each in inside.items()}]


def _part_of(value: Any) -> Any:
    """A few values that stand for those of a large array or container, with their number; others are as they are."""
    if isinstance(value, np.memmap):
        return str(value.filename), value.shape
    if isinstance(value, Tensor | np.ndarray) and value.nbytes > _LARGE:
        step = max(1, math.prod(value.shape) // _SOME)
        changes = value._version if isinstance(value, Tensor) and not value.is_inference() else 0
        return [changes, tuple(value.shape), value.reshape(-1)[::step]]
    if not isinstance(value, list | tuple | deque | Mapping | set | frozenset) or len(value) <= _SOME:
        return value
    if isinstance(value, set | frozenset):  # in no order
        return "set", len(value)
    some = value.items() if isinstance(value, Mapping) else value
    return [len(value), *islice(some, 0, None, len(value) // _SOME)]


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if name in _LEFT_OUT:
            continue
        if name in HOOKS:
            if value:
                yield name, list(value.values())
        elif not name.startswith(_OURS):
            yield name, value


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def is_unchanging(value: Any) -> bool:
    """Whether a value can't change, and has nothing inside that can."""
    kind = type(value)
    if kind is tuple:
        return _PLAIN_TYPES.issuperset(map(type, value))
    return kind in _PLAIN_TYPES or isinstance(value, _PLAIN)


def _may_change(value: Any) -> bool:
    """Whether a compound value may change, or leads to another one: `deepcopy` gives a copy of it, unless its class
    says otherwise. Objects of libraries, such as loggers, are the same on purpose."""
    if isinstance(value, list | dict | set | deque | weakref.ref):
        return True
    is_name = inspect.isroutine(value) or inspect.isclass(value) or isinstance(value, enum.Enum)
    return not is_name and not has_known_version(type(value).__module__)


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


def cells_of(function: Any) -> dict[str, types.CellType]:
    """The variables in a function's closure, by name; `__class__` is there for `super()`."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def content_of(cell: types.CellType) -> Any:
    """The value of a variable in a closure; None where it has none yet."""
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
