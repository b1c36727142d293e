"""The transforms of images and texts as data that can be read and built again.

Decides which steps a bundle can hold: every transform of torchvision's v2 whose arguments can be read back from it,
and, for those who trust it, code of the user's own. Loading makes objects of no other class.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from leaven.bundle.source_code import TOKENIZER, Code, Sources, point_at
from leaven.bundle.tried import try_tokenizer
from leaven.runtime.data.texts import Tokenizer
from leaven.runtime.failures import Failure

MOST_NUMBERS = 10_000  # in a tensor that is an argument
DEEPEST = 20
_UNREAD = inspect.Parameter.empty


def describe(step: Any, sources: Sources) -> Any:
    """A step as data. A step that can't be described is a failure that names it."""
    if step is None:
        return None
    kind = type(step)
    if isinstance(step, Tokenizer):
        with TemporaryDirectory(prefix="leaven-") as place:
            for file in step.save(Path(place)):
                sources.members[f"{TOKENIZER}/{file.name}"] = file.read_bytes()
        return {"tokenizer": True, "arguments": {"max_length": step.max_length, "padding": step.padding}}
    if _transform(kind.__name__) is kind:
        return {"step": kind.__name__, "arguments": _read_back(step, sources)}
    if isinstance(step, functools.partial):
        name = str(step.func)
        return {
            "code": point_at(step.func, sources),
            "first": [_encoded(value, name, sources) for value in step.args],
            "with": {word: _encoded(value, name, sources) for word, value in step.keywords.items()},
        }
    if inspect.isfunction(step) or inspect.isbuiltin(step) or inspect.isclass(step):
        return {"code": point_at(step, sources), "first": [], "with": {}}
    return {"code": point_at(kind, sources), "made_with": _read_back(step, sources)}


def rebuild(data: Any, code: Code, depth: int = 0) -> Callable[[Any], Any] | None:
    """The step that `describe` described."""
    if depth > DEEPEST:
        raise ValueError("steps within steps without an end")
    match data:
        case None:
            return None
        case {"tokenizer": True, "arguments": {"max_length": int(length), "padding": "longest" | "max_length" as pad}}:
            with TemporaryDirectory(prefix="leaven-") as place:
                for file, content in code.tokenizer.items():
                    (Path(place) / file).write_bytes(content)
                if not code.is_tried:
                    try_tokenizer(Path(place), code.bundle)
                return Tokenizer.from_files(Path(place), length, pad)
        case {"step": str(name), "arguments": dict(arguments)}:
            transform = _transform(name)
            if transform is None:
                raise Failure(f"there is no transform {name} in this torchvision ({version('torchvision')})")
            return _called(transform, _decoded_all(arguments, code, depth))
        case {"code": dict(pointer), "first": [*first], "with": dict(arguments)}:
            function = code.find(pointer)
            values = [_decoded(value, code, depth + 1) for value in first]
            return functools.partial(function, *values, **_decoded_all(arguments, code, depth))
        case {"code": dict(pointer), "made_with": dict(arguments)}:
            return _called(code.find(pointer), _decoded_all(arguments, code, depth))
    raise ValueError("a step can't be read")


def has_code(data: Any) -> bool:
    """Whether steps, as data, need code of the user's own."""
    match data:
        case dict():
            return "code" in data or any(has_code(value) for value in data.values())
        case list():
            return any(has_code(value) for value in data)
    return False


def _transform(name: str) -> Any:
    """The class of that name among torchvision's transforms, None where there is none."""
    from torchvision.transforms import v2

    transform = getattr(v2, name, None)
    is_one = inspect.isclass(transform) and transform.__module__.startswith("torchvision.transforms.v2.")
    return transform if is_one and hasattr(transform, "forward") else None


def _called(make: Any, arguments: dict[str, Any]) -> Callable[[Any], Any]:
    try:
        made = make(**arguments)
    except Exception as problem:
        raise Failure(f"the step {make.__name__} can't be made: {type(problem).__name__}: {problem}") from None
    if not callable(made):
        raise Failure(f"the step {make.__name__} can't be called")
    step: Callable[[Any], Any] = made
    return step


# -- arguments


def _read_back(step: Any, sources: Sources) -> dict[str, Any]:
    """The arguments of a step's constructor, read from the attributes of the same names."""
    name, arguments = type(step).__name__, {}
    for parameter in inspect.signature(type(step)).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        value = getattr(step, parameter.name, _UNREAD)
        if value is _UNREAD:
            raise _undescribed(name, f"its argument `{parameter.name}` can't be read back from it")
        arguments[parameter.name] = _encoded(value, name, sources)  # defaults too: they may be others tomorrow
    return arguments


def _encoded(value: Any, name: str, sources: Sources) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case torch.dtype():
            return {"dtype": str(value).removeprefix("torch.")}
        case Enum() if type(value).__name__ == "InterpolationMode":
            return value.value
        case Tensor() if value.numel() <= MOST_NUMBERS:
            return {"tensor": value.tolist(), "of": str(value.dtype).removeprefix("torch.")}
        case list() | tuple():
            return [_encoded(item, name, sources) for item in value]
        case _ if callable(value):
            return describe(value, sources)
    raise _undescribed(name, f"{value!r} is not a plain value")


def _decoded_all(arguments: Mapping[str, Any], code: Code, depth: int) -> dict[str, Any]:
    decoded = {name: _decoded(value, code, depth + 1) for name, value in arguments.items()}
    if isinstance(decoded.get("interpolation"), str):
        from torchvision.transforms import InterpolationMode

        decoded["interpolation"] = InterpolationMode(decoded["interpolation"])
    return decoded


def _decoded(value: Any, code: Code, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("values within values without an end")
    match value:
        case {"dtype": str(name)}:
            return _dtype(name)
        case {"tensor": numbers, "of": str(name)}:
            return torch.tensor(numbers, dtype=_dtype(name))
        case {"step": _} | {"code": _}:
            return rebuild(value, code, depth)
        case list():
            return [_decoded(item, code, depth + 1) for item in value]
        case None | bool() | int() | float() | str():
            return value
    raise ValueError("an argument of a step can't be read")


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"there is no dtype {name}")
    return dtype


def _undescribed(name: str, reason: str) -> Failure:
    return Failure(
        f"the step {name} can't be written into a bundle: {reason}",
        "use torchvision's transforms, or a function or class of your own in a file, with plain arguments",
    )
