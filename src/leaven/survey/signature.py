"""Reads a library's function or class as a list of parameters.

Decides which kinds of values a parameter takes, from its annotation, its default and its documentation; where these
leave doubt the answer is `any`, since refusing a correct recipe is worse than finding an error later. Which parameters
Leaven passes itself is left to the callers.

A parameter is a dictionary with the fields of `leaven.catalog.card.Parameter`; fields at their default are left out.
"""

import collections.abc
import copy
import enum
import functools
import inspect
import numbers
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast

import torch
from torch import Tensor

from leaven.catalog import habits
from leaven.survey.docstring import described_arguments

Entry = dict[str, Any]

_WORDS: dict[object, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "text",
    type(None): "none",
    None: "none",
    numbers.Number: "float",
    Path: "path",
    Tensor: "list",  # a recipe writes a list; `is_tensor` says that the program must wrap it
}
_LISTS = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_MAPPINGS = (dict, collections.abc.Mapping)  # which recipes can't write
_ORDER = ("int", "float", "bool", "text", "path", "choice", "list", "none")
_EMPTY = inspect.Parameter.empty
_DTYPES = ("float32", "float16", "bfloat16", "float64", "uint8", "int8", "int16", "int32", "int64", "bool")


@dataclass
class Signature:
    """The parameters of one callable."""

    parameters: list[Entry] = field(default_factory=list)
    open_ended: bool = False

    def names(self) -> set[str]:
        return {entry["name"] for entry in self.parameters}

    def without(self, names: Iterable[str]) -> "Signature":
        left_out = set(names)
        return Signature([entry for entry in self.parameters if entry["name"] not in left_out], self.open_ended)

    def as_options(self) -> "Signature":
        """The same signature with every parameter keyword-only and optional."""
        options = [{**entry, "positional": False} for entry in self.parameters]
        for entry in options:
            entry.pop("required", None)
        return Signature(options, self.open_ended)


def read(callable_: Callable[..., Any], documentation: str | None = None) -> Signature:
    """The signature of a function, or of a class's constructor with what it forwards to its base classes."""
    return copy.deepcopy(_read(callable_, documentation))


@functools.cache
def _read(callable_: Callable[..., Any], documentation: str | None) -> Signature:
    if not inspect.isclass(callable_):
        documented = described_arguments(documentation or inspect.getdoc(callable_))
        return _assemble(_own_parameters(callable_), documented)
    found: dict[str, inspect.Parameter] = {}
    is_open = False
    ancestors = (vars(ancestor) for ancestor in callable_.__mro__ if ancestor is not object)
    for constructor in (defined["__init__"] for defined in ancestors if "__init__" in defined):
        parameters = _own_parameters(constructor)
        for parameter in parameters:
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                found.setdefault(parameter.name, parameter)
        rest = next((parameter.name for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD), None)
        code = _code(constructor)
        # A constructor that drops its `**kwargs` would hide a misspelt argument.
        is_open = rest is not None and len(re.findall(rf"\b{rest}\b", code)) > 1
        forwards = rf"super\([^)]*\)\.__init__\([^()]*(\([^()]*\)[^()]*)*\*\*{rest}"
        if rest is None or re.search(forwards, code) is None:
            break
    signature = _assemble(found.values(), _documented(callable_, documentation))
    signature.open_ended = is_open
    return signature


def _own_parameters(callable_: Callable[..., Any]) -> list[inspect.Parameter]:
    scope = {**vars(typing), **getattr(inspect.unwrap(callable_), "__globals__", {})}
    return [
        parameter.replace(annotation=_evaluated(parameter.annotation, scope))
        for parameter in inspect.signature(callable_).parameters.values()
        if parameter.name not in ("self", "cls")
    ]


def _evaluated(annotation: object, scope: dict[str, Any]) -> object:
    """An annotation that was written as a string, evaluated; empty where that needs something not imported."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, scope)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return _EMPTY


def _code(function: Callable[..., Any]) -> str:
    """The source without documentation and comments."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return ""
    return re.sub(r'"""[\s\S]*?"""|#[^\n]*', "", source)


def _assemble(parameters: Iterable[inspect.Parameter], documented: dict[str, tuple[str, str]]) -> Signature:
    signature = Signature()
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            signature.open_ended = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            documented_type, summary = documented.get(parameter.name, ("", ""))
            entry = entry_of(parameter, documented_type, summary)
            if enum_class := _enum_in(parameter.annotation, parameter.default):
                entry["enum"] = import_path(enum_class)
            elif torch.dtype in _alternatives(parameter.annotation):
                entry["enum"] = "torch"
            if Tensor in _alternatives(parameter.annotation) and "list" in entry["type"]:
                entry["is_tensor"] = True
            signature.parameters.append(entry)
    # A positional parameter after a keyword-only one exists only where constructors were joined.
    signature.parameters.sort(key=lambda entry: not entry.get("positional", True))
    return signature


def entry_of(parameter: inspect.Parameter, documented_type: str = "", summary: str = "") -> Entry:
    """One parameter as a dictionary."""
    kinds, choices = words(parameter.annotation)
    default = parameter.default
    if parameter.annotation is _EMPTY:
        kinds = _documented_words(documented_type)
    if default is not _EMPTY:
        kinds |= _default_words(default, known=bool(kinds))
    entry: Entry = {"name": parameter.name, "type": join(kinds)}
    if choices and "choice" in kinds:
        entry["choices"] = choices
    if parameter.kind is parameter.KEYWORD_ONLY:
        entry["positional"] = False
    if default is _EMPTY:
        entry["required"] = True
    set_default(entry, None if default is _EMPTY else default, summary)
    return entry


def set_default(entry: Entry, value: object, summary: str = "") -> None:
    """Writes a default into an entry; one that is not a plain value goes into the summary."""
    try:
        entry["default"] = plain(value)
    except ValueError:
        entry["default"] = None
        summary = f"{summary} Default: {describe(value)}.".strip()
    if entry["default"] is None:
        del entry["default"]
    if summary:
        entry["summary"] = summary


def words(annotation: object) -> tuple[set[str], list[str]]:
    """The kinds of values that an annotation allows, and the strings where only certain ones are."""
    if annotation in (_EMPTY, Any):
        return (set() if annotation is _EMPTY else {"any"}), []
    try:
        if annotation in _WORDS:
            return {_WORDS[annotation]}, []
    except TypeError:
        return {"any"}, []
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType):
        parts = [words(part) for part in typing.get_args(annotation)]
        kinds = set().union(*(part for part, _ in parts))
        lists = [part for part in typing.get_args(annotation) if "list" in words(part)[0]]
        if lists == [Tensor] and kinds & {"int", "float"}:
            kinds.discard("list")  # a number that may also be a tensor
        if any(_is_enum(part) for part in typing.get_args(annotation)):
            kinds -= {"text", "int"}  # a string, or in older code a number, that stands for a member of the enum
        if not kinds - {"none"}:
            kinds.add("any")
        return kinds, [text for _, texts in parts for text in texts]
    if origin is Literal:
        return _literal_words(typing.get_args(annotation))
    if annotation is torch.dtype:
        return {"choice"}, list(_DTYPES)
    if _is_enum(annotation):
        return _literal_words(tuple(member.value for member in cast(type[enum.Enum], annotation)))
    if isinstance(annotation, TypeVar):
        return words(annotation.__bound__ or Any)
    holder = origin or annotation
    if inspect.isclass(holder) and holder in _LISTS:
        return {"list"}, []
    return (set() if holder in _MAPPINGS else {"any"}), []


def _literal_words(values: tuple[Any, ...]) -> tuple[set[str], list[str]]:
    kinds = {"choice" if isinstance(value, str) else _WORDS.get(type(value), "any") for value in values}
    return kinds, [value for value in values if isinstance(value, str)]


def _default_words(default: object, known: bool) -> set[str]:
    """The kinds of values that a default adds; an integer or None alone says nothing."""
    if isinstance(default, enum.Enum):
        return {"choice"} if known else {"any"}
    if isinstance(default, (list, tuple)):
        return {"list"}
    word = _WORDS.get(type(default))
    if not known and word in ("int", "none"):
        return {"any"}
    if word == "text" and known:
        return set()  # the annotation says it, perhaps as a choice
    return {word} if word else set() if known else {"any"}


def widened(type_: str, value: object) -> str:
    """The kinds of values of `type_`, and that of `value`."""
    if type_ == "any" or "choice" in type_:
        return type_
    return join(set(type_.split("|")) | _default_words(value, known=True))


_DOCUMENTED = {type: type for type in ("int", "float", "bool", "list", "none")} | {
    name: type for name, type in habits.names()["types"].items() if type in _ORDER and type not in ("path", "choice")
}


def _documented_words(text: str) -> set[str]:
    """Kinds of values from a docstring's `(int or sequence, optional)`; nothing unless every word is known."""
    text = re.sub(r"[`.,|/\[\]]|optional|\bor\b|\bof\b|\bints\b|\bfloats\b|default.*|, ", " ", text.lower())
    kinds = {_DOCUMENTED.get(word, "any") for word in text.split()}
    return set() if "any" in kinds else kinds


def join(found: set[str]) -> str:
    """Kinds of values as one string; a float may be written as an integer."""
    if not found or "any" in found:
        return "any"
    if "float" in found:
        found = found - {"int"}
    if "path" in found:
        found = found - {"text"}
    if "text" in found:
        found = found - {"choice"}
    return "|".join(word for word in _ORDER if word in found)


def _is_enum(annotation: object) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, enum.Enum)


def _enum_in(annotation: object, default: object) -> type[enum.Enum] | None:
    """The enum whose members a program must pass; None where strings will do."""
    alternatives = (*_alternatives(annotation), type(default))
    if str in alternatives:
        return None
    return next((cast(type[enum.Enum], part) for part in alternatives if _is_enum(part)), None)


def _alternatives(annotation: object) -> tuple[object, ...]:
    is_union = typing.get_origin(annotation) in (Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def plain(value: object) -> Any:
    """A value as JSON can hold it; ValueError where it can't."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    raise ValueError(f"{value!r} is not a plain value")


def import_path(thing: Any) -> str:
    """The shortest public path of a class or function: its package's where that exports it."""
    name: str = thing.__qualname__
    pieces = thing.__module__.split(".")
    for length in range(1, len(pieces) + 1):
        package = ".".join(pieces[:length])
        is_public = not any(piece.startswith("_") for piece in pieces[:length])
        if is_public and getattr(sys.modules.get(package), name, None) is thing:
            return f"{package}.{name}"
    return f"{thing.__module__}.{name}"


def describe(value: object) -> str:
    """A few words for a value that is not plain."""
    wrapped = getattr(value, "func", None)  # functools.partial
    return str(getattr(wrapped or value, "__name__", type(value).__name__))


def _documented(class_: type, documentation: str | None) -> dict[str, tuple[str, str]]:
    texts = [documentation or class_.__doc__, class_.__init__.__doc__]  # type: ignore[misc]
    texts += [ancestor.__doc__ for ancestor in class_.__mro__[1:] if ancestor is not object]
    found: dict[str, tuple[str, str]] = {}
    for text in texts:
        for name, described in described_arguments(inspect.cleandoc(text) if text else None).items():
            found.setdefault(name, described)
    return found
