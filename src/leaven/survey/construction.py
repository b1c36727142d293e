"""Finds out how a library's entry point constructs its model, without building it.

An entry point such as timm's `convnext_tiny` takes `**kwargs`; which arguments it takes, which of them it fixes and
with what defaults is known only to the constructor that it calls in the end. So the entry point is called, and stopped
when it creates the model object.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import nn

from leaven.survey import signature as signatures
from leaven.survey.signature import Signature


@dataclass(frozen=True)
class Construction:
    """The class that an entry point creates, and the arguments it passes."""

    class_: type
    arguments: dict[str, Any]
    fixed: frozenset[str]  # arguments that the caller can't change


class _Stopped(BaseException):
    """Raised in place of the model's construction; no library catches it."""

    def __init__(self, class_: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.class_, self.args_, self.kwargs = class_, args, kwargs


def watch(entry: Callable[..., Any], **given: Any) -> Construction | None:
    """The construction that the entry point makes; None where it fails before that."""
    wanted = _returned_class(entry)
    stopped = _stop(entry, wanted, given)
    if not isinstance(stopped, _Stopped):
        return None
    arguments = {**_by_place(stopped), **stopped.kwargs}
    changeable = {**arguments, **given}
    fixed: set[str] = set()
    while not isinstance(again := _stop(entry, wanted, changeable), _Stopped):
        refused = re.search(r"multiple values for (?:keyword )?argument '(\w+)'", str(again))
        if refused is None or refused[1] not in changeable:
            return None
        fixed.add(refused[1])
        del changeable[refused[1]]
    fixed |= set(_by_place(again)) & again.kwargs.keys()  # passed twice, which is an error
    return Construction(stopped.class_, arguments, frozenset(fixed))


def swallowed(entry: Callable[..., Any], names: set[str], **given: Any) -> set[str]:
    """The names that the entry point takes itself and does not pass on to the constructor."""
    wanted = _returned_class(entry)
    stopped = _stop(entry, wanted, {**given, **dict.fromkeys(names)})
    if isinstance(stopped, _Stopped):
        return names - stopped.kwargs.keys()
    if len(names) <= 1:
        return set()
    return {name for name in names if swallowed(entry, {name}, **given)}


def _stop(entry: Callable[..., Any], wanted: type, given: dict[str, Any]) -> BaseException | None:
    """The exception that ends an entry point: the construction of its first module of a class, or a failure."""
    is_waiting = True  # `__new__` stays in place: deleting it breaks later constructions

    def new(class_: type, *args: Any, **kwargs: Any) -> Any:
        if is_waiting and issubclass(class_, wanted):
            raise _Stopped(class_, args, kwargs)
        return object.__new__(class_)

    nn.Module.__new__ = staticmethod(new)  # type: ignore[method-assign, assignment]
    try:
        for device in ("meta", "cpu"):  # what is built first should take no time, but may need values
            try:
                with torch.device(device):
                    entry(**given)
            except (_Stopped, Exception) as stopped:
                if device == "cpu" or "meta" not in str(stopped):
                    return stopped
    finally:
        is_waiting = False
    return None


def _returned_class(entry: Callable[..., Any]) -> type:
    returned = inspect.signature(entry).return_annotation
    return returned if inspect.isclass(returned) and issubclass(returned, nn.Module) else nn.Module


def _by_place(stopped: _Stopped) -> dict[str, Any]:
    """The positional arguments, under the names that the constructor gives them."""
    names = [name for name in inspect.signature(stopped.class_.__init__).parameters if name != "self"]  # type: ignore[misc]
    return dict(zip(names, stopped.args_, strict=False))


def constructor_signature(construction: Construction) -> Signature:
    """The signature of the constructed class; fields of a configuration that the caller may change are parameters."""
    signature = signatures.read(construction.class_)
    if signature.open_ended:
        for name, value in construction.arguments.items():
            if is_dataclass(value) and name in construction.fixed | {"cfg"}:
                signature.parameters += [
                    entry for entry in _fields(value) if entry["name"] not in signature.names() | {"self"}
                ]
                signature.open_ended = False
    return signature


def _fields(configuration: Any, prefix: str = "") -> Iterator[signatures.Entry]:
    for part in fields(configuration):
        value = getattr(configuration, part.name)
        if is_dataclass(value) and part.name.endswith("_cfg"):
            yield from _fields(value, part.name.removesuffix("cfg"))
            continue
        annotation = inspect.Parameter.empty if isinstance(part.type, str) else part.type
        yield signatures.entry_of(
            inspect.Parameter(prefix + part.name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=annotation)
        )


def add_differences(card: dict[str, Any], construction: Construction, signature: Signature) -> None:
    """Adds what an entry point changes in its class's signature: arguments that it fixes, and other defaults."""
    known = {entry["name"]: entry for entry in signature.parameters}
    fixed = sorted(construction.fixed & known.keys())
    changes = {
        name: change
        for name, value in construction.arguments.items()
        if name in known and name not in fixed and (change := _change(known[name], value))
    }
    if fixed:
        card["without"] = fixed
    if changes:
        card["changes"] = changes


def _change(entry: signatures.Entry, value: object) -> dict[str, Any]:
    """The fields of a parameter that change when an entry point passes `value`."""
    passed: dict[str, Any] = {"type": signatures.widened(entry["type"], value)}
    signatures.set_default(passed, value)
    passed.setdefault("default", None)
    if "summary" in passed and (documented := entry.get("summary", "").partition(" Default: ")[0]):
        passed["summary"] = f"{documented} {passed['summary']}"
    return {key: new for key, new in passed.items() if entry.get(key) != new}
