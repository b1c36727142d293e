"""How a model is built, as data: by timm, torchvision or transformers, of components, or by the user's own code.

Decides what a bundle may ask to be built. Only what is listed here is called; arguments are plain values; nothing is
fetched. The weights are filled in by others.
"""

import argparse
import importlib
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

from torch import nn

from leaven.bundle.limits import TooLarge
from leaven.bundle.source_code import Code, Sources, point_at
from leaven.formats.text_models import Pooling
from leaven.runtime.failures import Failure
from leaven.runtime.model.builder import Change, without_weights
from leaven.runtime.model.heads import replace_head
from leaven.runtime.model.text import from_configuration
from leaven.tasks import find as find_task

# What would read files or the network.
_FETCHING = {
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
    "checkpoint_path",
    "cache_dir",
    "weights",
    "weights_backbone",
    "progress",
}
MOST_COMPONENTS = 10_000
MOST_OUTPUTS = 1_000_000
_NAMESPACE = "argparse.Namespace"  # marks the command line that a program's function is given


class _LibraryModel:
    """A model of a library's, by its name and the arguments of what builds it."""

    library: ClassVar[str]

    def __init__(
        self,
        name: str,
        /,
        head: tuple[str, int] | None = None,
        arguments: Mapping[str, Any] | None = None,
        fitted: tuple[str, int] | None = None,
        **more: Any,
    ) -> None:
        self.name = name
        self.head = head
        self.fitted = fitted
        self.arguments = plain({**(arguments or {}), **more}, f"the arguments of {name}")

    def describe(self, sources: Sources) -> dict[str, Any]:
        heads = {**_head_data(self.head), **_head_data(self.fitted, "fitted")}
        return {"by": self.library, "name": self.name, "arguments": self.arguments, **heads}

    def build(self, code: Code) -> nn.Module:
        if fetching := sorted(_FETCHING & self.arguments.keys()):
            raise Failure(f"a bundle's model is built without `{fetching[0]}`: its weights are in the bundle")
        model = _with_head(_module(self._made(), self.name), self.head)
        if self.fitted is not None:
            task: Any = find_task(self.fitted[0])
            task.fit_head(model, self.fitted[1])
        return model

    def _made(self) -> Any:
        raise NotImplementedError


class Timm(_LibraryModel):
    """A model of timm's, by its name and the arguments of `timm.create_model`.

    `head=("fc", 10)` says that the linear layer at that path was replaced by one for ten classes,
    `fitted=("segmentation", 10)` that the function of that task did what it takes.
    """

    library = "timm"

    def _made(self) -> Any:
        import timm

        if not timm.is_model(self.name):
            raise Failure(f"timm {timm.__version__} has no model {self.name}", "the bundle says which version had it")
        return _built(self.name, timm.create_model, self.name, pretrained=False, **self.arguments)


class Torchvision(_LibraryModel):
    """A model of torchvision's, by its name and the arguments of its builder; heads are as for `Timm`."""

    library = "torchvision"

    def _made(self) -> Any:
        import torchvision
        from torchvision import models

        packages = (models, models.segmentation, models.detection)
        if not any(self.name in models.list_models(module=each) for each in packages):
            raise Failure(f"torchvision {torchvision.__version__} has no model {self.name}")
        extra: dict[str, Any] = {}
        if self.name in ("googlenet", "inception_v3"):
            extra = {"init_weights": False}  # else slow, with a warning
        if "weights_backbone" in inspect.signature(models.get_model_builder(self.name)).parameters:
            extra = {"weights_backbone": None}
        return _built(self.name, models.get_model, self.name, weights=None, **extra | self.arguments)


LIBRARIES: Mapping[str, type[Timm | Torchvision]] = {kind.library: kind for kind in (Timm, Torchvision)}


@dataclass
class Transformers:
    """A model of the transformers library that classifies texts, by its configuration; `head` is as for `Timm`."""

    name: str
    config: Mapping[str, Any]
    pooling: Pooling = ""
    head: tuple[str, int] | None = None

    def describe(self, sources: Sources) -> dict[str, Any]:
        config = plain(self.config, f"the configuration of {self.name}")
        told = {"by": "transformers", "name": self.name, "config": config, "pooling": self.pooling}
        return {**told, **_head_data(self.head)}

    def build(self, code: Code) -> nn.Module:
        return _with_head(_built(self.name, from_configuration, self.config, self.pooling), self.head)


@dataclass
class Components:
    """Components of Leaven's, one after the other: `Components([("Conv", {"in_channels": 1, "channels": 32}), …])`."""

    parts: Sequence[tuple[str, Mapping[str, Any]]]

    def describe(self, sources: Sources) -> dict[str, Any]:
        parts = [[name, plain(arguments, f"the arguments of {name}")] for name, arguments in self.parts]
        return {"by": "components", "parts": parts}

    def build(self, code: Code) -> nn.Module:
        if len(self.parts) > MOST_COMPONENTS:
            raise Failure(f"a model of {len(self.parts)} components is too large")
        return nn.Sequential(*(_built(name, component(name), **arguments) for name, arguments in self.parts))


@dataclass
class Own:
    """A module of the user's: a class or function in a file (or an installed module), and what it is called with.

    `head` is as for `Timm`; `reads` are further files that the code reads.
    """

    place: str | os.PathLike[str]
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    head: tuple[str, int] | None = None
    reads: Sequence[str] = ()

    @property
    def is_installed(self) -> bool:
        """Whether the place is an installed module rather than a file."""
        return not os.fspath(self.place).endswith(".py")

    def describe(self, sources: Sources) -> dict[str, Any]:
        place = os.fspath(self.place) if self.is_installed else sources.add(os.fspath(self.place))
        for file in self.reads:
            sources.add_beside(file)
        given = {
            key: {_NAMESPACE: vars(value)} if isinstance(value, argparse.Namespace) else value
            for key, value in self.arguments.items()
        }
        arguments = plain(given, f"the arguments of {self.name}")
        return {"by": "own", "place": place, "name": self.name, "arguments": arguments, **_head_data(self.head)}

    def build(self, code: Code) -> nn.Module:
        make = code.find({"module" if self.is_installed else "file": self.place, "name": self.name})
        arguments = {
            key: argparse.Namespace(**value[_NAMESPACE]) if isinstance(value, dict) and _NAMESPACE in value else value
            for key, value in self.arguments.items()
        }
        with without_weights():
            model = _module(_built(self.name, make, **arguments), self.name)
        return _with_head(model, self.head)


@dataclass(frozen=True)
class Changed:
    """A model that techniques of the user's changed after it was built, before it was trained."""

    first: "BuiltFirst"
    changes: Sequence[Change | Mapping[str, Any]]

    def describe(self, sources: Sources) -> dict[str, Any]:
        changes = [_change_data(each, sources) if isinstance(each, Change) else dict(each) for each in self.changes]
        return {"by": "changed", "first": self.first.describe(sources), "changes": changes}

    def build(self, code: Code) -> nn.Module:
        changes = [each for each in self.changes if not isinstance(each, Change)]
        assert len(changes) == len(self.changes), "it is built from what `describe` wrote"
        made = [code.find(change["code"]) for change in changes]  # who does not trust it builds nothing
        model = self.first.build(code)
        for make, change in zip(made, changes, strict=True):
            name, given = change["code"]["name"], dict.fromkeys(change["given"], model)
            technique = _built(name, make, **change["arguments"], **given)
            _built(f"what {name} changes", technique.on_model, model)
        return model


BuiltFirst = Timm | Torchvision | Transformers | Components | Own
BuiltBy = BuiltFirst | Changed


def read_builder(data: Any) -> BuiltBy:
    """What `describe` wrote, read back."""
    match data:
        case {"by": "changed", "first": dict(first), "changes": [_, *_] as changes}:
            return Changed(_read_first(first), [_read_change(each) for each in changes])
    return _read_first(data)


def _read_first(data: Any) -> BuiltFirst:
    match data:
        case {"by": "timm" | "torchvision" as library, "name": str(name), "arguments": dict(arguments)}:
            fitted = _read_head(data, "fitted")
            return LIBRARIES[library](name, head=_read_head(data), fitted=fitted, arguments=arguments)
        case {"by": "transformers", "name": str(name), "config": dict(config), "pooling": pooling} if (
            pooling in get_args(Pooling)
        ):
            return Transformers(name, config, pooling, _read_head(data))
        case {"by": "components", "parts": [*parts]}:
            return Components([(str(name), dict(arguments)) for name, arguments in parts])
        case {"by": "own", "place": str(place), "name": str(name), "arguments": dict(arguments)}:
            return Own(place, name, arguments, _read_head(data))
    raise ValueError("how the model is built can't be read")


def _change_data(change: Change, sources: Sources) -> dict[str, Any]:
    name = change.technique.__qualname__
    if change.lost:
        raise Failure(
            f"a bundle can't hold the argument `{change.lost[0]}` of {name}",
            "let its constructor take numbers, texts and lists of them",
        )
    return {
        "code": point_at(change.technique, sources),
        "arguments": plain(change.arguments, f"the arguments of {name}"),
        "given": list(change.given),
    }


def _read_change(data: Any) -> dict[str, Any]:
    match data:
        case {"code": {"name": str()} as code, "arguments": dict(arguments), "given": [*given]}:
            return {"code": code, "arguments": arguments, "given": [str(name) for name in given]}
    raise ValueError("a change of the model can't be read")


def _read_head(data: Mapping[str, Any], key: str = "head") -> tuple[str, int] | None:
    """A linear layer by its path, or what the function of a task `fitted`, and the outputs of that."""
    match data.get(key):
        case None:
            return None
        case [str(name), int(outputs)] if outputs <= MOST_OUTPUTS:
            if key == "head" or hasattr(find_task(name), "fit_head"):
                return name, outputs
    raise ValueError("the model's head can't be read")


def _head_data(head: tuple[str, int] | None, key: str = "head") -> dict[str, Any]:
    return {key: list(head)} if head is not None else {}


def _with_head(model: nn.Module, head: tuple[str, int] | None) -> nn.Module:
    if head is not None:
        replace_head(model, *head)
    return model


def plain(value: Any, what: str) -> Any:
    """A value as JSON has it: numbers, texts, truth values, lists and mappings of them."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [plain(item, what) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: plain(item, what) for key, item in value.items()}
    raise Failure(f"a bundle can't hold {what}: {value!r} is not a plain value", "use numbers, texts and lists of them")


def component(name: str) -> Any:
    """A class of `leaven.components`, whose file is named like it."""
    module = "leaven.components." + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    found = None
    if re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):  # no other module is imported
        with suppress(ModuleNotFoundError):
            found = getattr(importlib.import_module(module), name, None)
    if not (inspect.isclass(found) and issubclass(found, nn.Module) and found.__module__ == module):
        raise Failure(f"there is no component {name}")
    return found


def _built(name: str, make: Any, /, *args: Any, **arguments: Any) -> Any:
    try:
        return make(*args, **arguments)
    except (Failure, TooLarge):
        raise
    except Exception as problem:
        raise Failure(f"{name} can't be built: {type(problem).__name__}: {problem}") from problem


def _module(model: Any, name: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise Failure(f"{name} makes a {type(model).__name__}, not an nn.Module")
    return model
