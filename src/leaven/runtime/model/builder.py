"""How a model came to be: the function that built it, and what techniques of the user's changed in it afterwards.

`model_builder` marks the program's function that builds a model. What its calls are, the plan says; a bundle whose
program was edited takes in the program and calls that function again, without loading weights.
"""

import argparse
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec
from weakref import WeakKeyDictionary

from torch import nn

from leaven.runtime.downloads import from_hub, rank_zero_first
from leaven.runtime.failures import Failure
from leaven.terminal import status_line

_DOWNLOADS = re.compile(r"pretrained=True|\bweights\w*=[\"']")  # in the source of a function
_PUBLISHED = {"pretrained", "weights", "weights_backbone"}  # the arguments that choose published weights
P = ParamSpec("P")


@dataclass(frozen=True)
class Change:
    """What a technique of the user's has changed in a model: its class, and the plain values it was made with.

    `given` are the parameters that get the model itself, `lost` those whose values no file can hold.
    """

    technique: type
    arguments: Mapping[str, Any]
    given: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Built:
    """The function that built a model, its arguments, and what was changed afterwards."""

    function: Callable[..., nn.Module] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


_BUILT: WeakKeyDictionary[nn.Module, Built] = WeakKeyDictionary()


def built(model: nn.Module) -> Built:
    """How a model was built, as far as it is known."""
    return _BUILT.get(model, Built())


def record(model: nn.Module, **facts: Any) -> None:
    """Note something about how a model was built."""
    _BUILT[model] = replace(built(model), **facts)


def model_builder(function: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """Marks a function that builds a model: a bundle can call it again, and on several devices one process downloads
    the weights for all."""

    @functools.wraps(function)
    def build(*args: P.args, **kwargs: P.kwargs) -> nn.Module:
        given = inspect.signature(function).bind(*args, **kwargs)
        parsed = {name: each for name, each in given.arguments.items() if isinstance(each, argparse.Namespace)}
        read: dict[str, dict[str, Any]] = {name: {} for name in parsed}  # the rest is none of a bundle's business
        given.arguments.update({name: noting(each, read[name]) for name, each in parsed.items()})
        turns = rank_zero_first() if _loads_weights else nullcontext()  # one process alone builds again for a bundle
        with status_line.doing("building the model…"), turns, _downloading(function):
            model = function(*given.args, **given.kwargs)
        if not isinstance(model, nn.Module):
            name, found = function.__name__, "nothing" if model is None else f"a {type(model).__name__}"
            raise Failure(f"{name} returned {found}, not a model", "end it with `return model`", about=name)
        known = {name: argparse.Namespace(**values) for name, values in read.items()}
        record(model, function=function, arguments={**given.arguments, **known})
        return model

    return build


@contextmanager
def _downloading(function: Callable[..., Any]) -> Iterator[None]:
    """While a function builds a model: where it downloads weights, a failure says what to do."""
    source = ""
    with suppress(OSError, TypeError):  # where it has no file
        source = inspect.getsource(function)
    if not _loads_weights or not _DOWNLOADS.search(source):
        yield
        return
    from leaven.plan.recorded_plan import plan_of_program  # few programs download anything

    plan = plan_of_program(Path(function.__code__.co_filename))
    with from_hub(plan.model.name if plan is not None else "the model"):
        yield


# -- without weights

_loads_weights = True


def loads_weights() -> bool:
    """Whether weights are loaded while models are built: not for a bundle, which has its own."""
    return _loads_weights


@contextmanager
def without_weights() -> Iterator[None]:
    """Let models be built without loading weights."""
    global _loads_weights
    before, _loads_weights = _loads_weights, False
    try:
        yield
    finally:
        _loads_weights = before


def noting(args: argparse.Namespace, read: dict[str, Any]) -> argparse.Namespace:
    """The same arguments of a program; what is read of them is noted, with its value."""

    class Noting(argparse.Namespace):
        def __getattribute__(self, name: str) -> Any:
            value = object.__getattribute__(self, name)
            read.update(value if name == "__dict__" else {name: value} if not name.startswith("__") else {})
            return value

    made = Noting(**vars(args))
    read.clear()
    return made


def without_published(module: ModuleType) -> None:
    """Let the functions of a module that came with a bundle build models of libraries, while it is loaded, without the
    weights that these publish."""
    for name, value in list(vars(module).items()):
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in ("timm", "torchvision"):
            vars(module)[name] = _Unpublished(value)


class _Unpublished:
    """A library, or a part of it, as a bundle's code sees it."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        if isinstance(found, ModuleType):
            return _Unpublished(found)
        if _loads_weights or not inspect.isfunction(found):
            return found
        return lambda *args, **kwargs: found(*args, **kwargs | dict.fromkeys(_PUBLISHED & kwargs.keys()))
