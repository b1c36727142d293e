"""How a model was built: recorded while the program builds it, so that a bundle can build it again.

`model_builder` marks the program's function that builds a model. While it runs, the calls that make models (timm's,
torchvision's, Leaven's components, the user's own) note on their result what they were called with, and so do the
functions of this room that change a model (`replace_head`, `load_weights`). A bundle that is loaded makes the same
calls again, without loading weights. Where these do not make the same model, because the program was edited to change
it in another way, the bundle takes in the program and calls its function. What techniques of the user's change
afterwards is noted as well, and they change the bundle's model likewise.
"""

import argparse
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, ParamSpec

from torch import nn

from leaven.runtime.downloads import from_hub, rank_zero_first
from leaven.runtime.failures import USER_FILE, Failure
from leaven.terminal import status_line

_NOTE = "_leaven_built"  # the attribute in which a model keeps how it was built
_COMPONENTS = "leaven.components."
BACKBONE, FROZEN_LAYERS = "weights_backbone", "trainable_backbone_layers"  # what only matters with published weights
_NOT_THE_USERS = ("torch", "torchvision", "timm", "torchmetrics", "leaven", "numpy", "lightning")
P = ParamSpec("P")


@dataclass(frozen=True)
class Made:
    """A call that made a model: of timm, of torchvision, of a component or of the user's code."""

    by: str  # timm, torchvision, component, user
    name: str
    arguments: Mapping[str, Any]
    place: str = ""  # of the user's code: its file, or its installed module


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
class Weights:
    """Where the weights of a model come from: a package, a file, or the tag that a library publishes them under."""

    package: str = ""
    file: str = ""
    tag: str = ""
    new: tuple[str, ...] = ()  # the layers that they were not loaded into


@dataclass(frozen=True)
class Built:
    """Everything that is known about how a model was built."""

    made: Made | None = None
    head: tuple[str, int] | None = None  # the layer that was replaced, and its number of outputs
    fitted: tuple[str, int] | None = None  # the task whose function fitted the head, and its number of outputs
    has_auxiliary_heads: bool = True
    weights: Weights | None = None
    function: Callable[..., nn.Module] | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the function
    changes: tuple[Change, ...] = ()  # after it was built


def built(model: nn.Module) -> Built:
    """How a model was built, as far as it was recorded."""
    found = model.__dict__.get(_NOTE)
    return found if isinstance(found, Built) else Built()


def record(model: nn.Module, **facts: Any) -> None:
    """Note something about how a model was built."""
    model.__dict__[_NOTE] = replace(built(model), **facts)


def model_builder(function: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """Marks a function that builds a model: how it does is recorded for the bundle, and on several devices one process
    downloads the weights for all."""

    @functools.wraps(function)
    def build(*args: P.args, **kwargs: P.kwargs) -> nn.Module:
        given = inspect.signature(function).bind(*args, **kwargs)
        read = {name: _Read(**vars(value)) for name, value in given.arguments.items() if _is_namespace(value)}
        given.arguments.update(read)
        with status_line.doing("building the model…"), rank_zero_first(), _recording(function):
            model = function(*given.args, **given.kwargs)
        if not isinstance(model, nn.Module):
            name, found = function.__name__, "nothing" if model is None else f"a {type(model).__name__}"
            raise Failure(f"{name} returned {found}, not a model", "end it with `return model`", about=name)
        known = {name: _used(value) if isinstance(value, _Read) else value for name, value in given.arguments.items()}
        record(model, function=function, arguments=known)
        return model

    return build


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


class _Read(argparse.Namespace):
    """The command line, which notes what is read from it: the rest is none of a bundle's business."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            object.__getattribute__(self, "__dict__").setdefault("_used", {})[name] = None
        return object.__getattribute__(self, name)


def _used(args: _Read) -> argparse.Namespace:
    """What was read of a command line."""
    known = vars(args)
    return argparse.Namespace(**{name: known[name] for name in known.get("_used", {}) if name in known})


def _is_namespace(value: Any) -> bool:
    return isinstance(value, argparse.Namespace)


# -- recording


@contextmanager
def _recording(function: Callable[..., Any]) -> Iterator[None]:
    """Let the calls that make models note it."""
    with ExitStack() as stack:
        for owner, name, made in _makers(function):
            stack.enter_context(_replaced(owner, name, made))
        yield


def _makers(function: Callable[..., Any]) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Functions and constructors that make models: their owner, their name there, and what replaces them."""
    if timm := sys.modules.get("timm"):
        for owner in (timm, timm.models):
            yield owner, "create_model", _timm_maker(owner.create_model)
    if models := sys.modules.get("torchvision.models"):
        for package in torchvision_models():
            for name in models.list_models(module=package):
                yield package, name, _torchvision_maker(getattr(package, name), name)
    components = [module for name, module in sys.modules.items() if name.startswith(_COMPONENTS)]
    for module in components:
        yield from _constructors(module, "component", "")
    for module in {value for value in function.__globals__.values() if _is_users(value)}:
        place = getattr(module, USER_FILE, None) or module.__name__
        yield from _constructors(module, "user", place)
        for name, made in inspect.getmembers(module, inspect.isfunction):
            yield module, name, _noting(made, place)


def torchvision_models() -> list[ModuleType]:
    """The packages of torchvision's models that a bundle may build."""
    from torchvision import models  # a program that uses none does not import them

    return [models, models.segmentation, models.detection]


def _is_users(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in {
        *_NOT_THE_USERS,
        *sys.stdlib_module_names,
    }


def _timm_maker(made: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(made)
    def create_model(model_name: str, pretrained: bool = False, *args: Any, **kwargs: Any) -> Any:
        pretrained = pretrained and _loads_weights
        with from_hub(model_name) if pretrained else nullcontext():
            model = made(model_name, pretrained, *args, **kwargs)
        weights = Weights(tag="DEFAULT") if pretrained else None
        record(model, made=None if args else Made("timm", model_name, kwargs), weights=weights)
        return model

    return create_model


def _torchvision_maker(made: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(made)
    def build(*args: Any, weights: Any = None, **kwargs: Any) -> Any:
        weights = weights if _loads_weights else None
        if BACKBONE in kwargs and not _loads_weights:
            kwargs[BACKBONE] = None
        fetches = weights is not None or kwargs.get(BACKBONE) is not None
        with from_hub(name) if fetches else nullcontext():
            model = made(*args, weights=weights, **kwargs)
        tag = getattr(weights, "name", weights)
        known = Weights(tag=str(tag)) if weights is not None else None
        given = {key: value for key, value in kwargs.items() if key not in (BACKBONE, FROZEN_LAYERS)}
        if getattr(model, "aux_classifier", None) is not None:
            given["aux_loss"] = True  # which published weights bring along
        record(model, made=None if args else Made("torchvision", name, given), weights=known)
        return model

    return build


def _constructors(module: ModuleType, by: str, place: str) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    for _, kind in inspect.getmembers(module, inspect.isclass):
        if issubclass(kind, nn.Module) and kind.__module__ == module.__name__ and "__init__" in vars(kind):
            yield kind, "__init__", _noting_init(kind, by, place)


def _noting_init(kind: type[nn.Module], by: str, place: str) -> Callable[..., Any]:
    made = kind.__init__

    @functools.wraps(made)
    def __init__(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if type(self) is kind:
            record(self, made=Made(by, kind.__qualname__, _bound(made, (self, *args), kwargs), place))

    return __init__


def _noting(made: Callable[..., Any], place: str) -> Callable[..., Any]:
    @functools.wraps(made)
    def build(*args: Any, **kwargs: Any) -> Any:
        model = made(*args, **kwargs)
        if isinstance(model, nn.Module):
            record(model, made=Made("user", made.__name__, _bound(made, args, kwargs), place))
        return model

    return build


def _bound(made: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names; `self` is left out."""
    found = dict(inspect.signature(made).bind(*args, **kwargs).arguments)
    found.pop("self", None)
    for name, parameter in inspect.signature(made).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            found.update(found.pop(name, {}))
    return found


@contextmanager
def _replaced(owner: Any, name: str, by: Any) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, before)
