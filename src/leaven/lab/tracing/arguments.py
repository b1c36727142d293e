"""The arguments that transforms draw, read from the calls in which they are applied.

Transforms of torchvision draw in `make_params` and apply in `transform`. A profile function of Python, as profilers
use, sees these calls and their results: nothing is replaced, so what is read is what was applied. Of any other code
only input and output are known, and whether it drew random numbers.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import v2 as T

from leaven.formats.finite_json import as_json

_FEW = 8  # numbers of a tensor that are listed
_POLICY = "_apply_image_or_video_transform"  # what AutoAugment and its like call for every operation
_BOX = ("left", "top", "width", "height")
_WITHOUT_MAGNITUDE = ("Identity", "AutoContrast", "Equalize", "Invert")
_NAMED = {"i": "top", "j": "left", "h": "height", "w": "width", "v": "value", "fn_idx": "order"}  # by torchvision
_SWITCHES = ("needs_crop", "needs_pad", "is_within_crop_area")  # which others say already


@dataclass
class Applied:
    """A transform that was called: its arguments as drawn (None: not known), and the transforms called inside it."""

    name: str
    arguments: dict[str, Any] | None = None
    is_applied: bool = True
    may_skip: bool = False  # whether it is decided at random whether it is applied
    inside: list["Applied"] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        return self.arguments is not None and all(one.is_known for one in self.inside)

    @property
    def words(self) -> str:
        """`60×48 at (3, 7)`, `angle 12.3`, `not applied`; empty where nothing is drawn, or where it is not known."""
        if not self.is_applied:
            return "not applied"
        own = _words(self.arguments or {}) or ("applied" if self.may_skip and not self.inside else "")
        inside = [f"{one.name}{f'({one.words})' if one.words else ''}" for one in self.inside]
        return " → ".join([*([own] if own else []), *inside])

    @as_json
    def to_json(self) -> dict[str, Any]:
        named = None if self.arguments is None else {name: _plain(value) for name, value in self.arguments.items()}
        inside = [one.to_json() for one in self.inside]
        return {"name": self.name, "arguments": named, "applied": self.is_applied, "inside": inside}


@dataclass
class Watched:
    """The outermost transforms that were called, in their order."""

    applied: list[Applied] = field(default_factory=list)


@contextmanager
def watching() -> Iterator[Watched]:
    """Note the transforms that are applied in this thread, as long as the context lasts."""
    found = Watched()
    before = sys.getprofile()
    sys.setprofile(_Watch(found).see)
    try:
        yield found
    finally:
        sys.setprofile(before)


class _Watch:
    """The calls of transforms that are going on, the innermost last."""

    def __init__(self, found: Watched) -> None:
        self.found = found
        self.open: list[tuple[FrameType, T.Transform, Applied]] = []

    def see(self, frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "return") or frame.f_code.co_name not in _NAMES:
            return
        transform = frame.f_locals.get("self")
        if not isinstance(transform, T.Transform):
            return
        name = frame.f_code.co_name
        if event == "call" and name == "forward":
            self._begin(frame, transform)
        elif not self.open or self.open[-1][1] is not transform:
            return
        elif event == "call":
            self._note_call(name, frame)
        elif name == "forward" and self.open[-1][0] is frame:
            self.open.pop()
        elif name == "make_params" and isinstance(result, Mapping) and not isinstance(transform, T.Lambda):
            self.open[-1][2].arguments = dict(result)
            self.open[-1][2].is_applied = True

    def _begin(self, frame: FrameType, transform: T.Transform) -> None:
        if self.open and self.open[-1][1] is transform:  # a class that calls the `forward` of the one above it
            return
        is_known = type(transform).__module__.startswith(_KNOWN) and not isinstance(transform, T.Lambda)
        skips = _may_skip(transform)
        one = Applied(type(transform).__name__, {} if is_known else None, is_applied=not skips, may_skip=skips)
        (self.open[-1][2].inside if self.open else self.found.applied).append(one)
        self.open.append((frame, transform, one))
        for outer in (each for _, _, each in self.open[:-1]):
            outer.is_applied = True

    def _note_call(self, name: str, frame: FrameType) -> None:
        if name == _POLICY:
            operation, magnitude = str(frame.f_locals.get("transform_id")), frame.f_locals.get("magnitude")
            self.open[-1][2].is_applied = True
            drawn = {} if operation in _WITHOUT_MAGNITUDE else {"magnitude": magnitude}
            self.open[-1][2].inside.append(Applied(operation, drawn))


_NAMES = frozenset({"forward", "make_params", _POLICY})
_KNOWN = "torchvision.transforms.v2."


def _may_skip(transform: T.Transform) -> bool:
    """Whether a transform is applied at random; `make_params` or a call inside it tell that it is."""
    return hasattr(transform, _POLICY) or isinstance(getattr(transform, "p", None), int | float)


# -- in words


def _words(arguments: Mapping[str, Any]) -> str:
    left = {
        _NAMED.get(name, name): value
        for name, value in arguments.items()
        if value is not None and name not in _SWITCHES
    }
    words = []
    if all(name in left for name in _BOX) and arguments.get("needs_crop", True):
        words.append(f"{left['width']}×{left['height']} at ({left['left']}, {left['top']})")
    left = {name: value for name, value in left.items() if name not in _BOX}
    if not arguments.get("needs_pad", True):
        left.pop("padding", None)
    return ", ".join([*words, *(f"{name} {_shown(_plain(value))}" for name, value in left.items())])


def _shown(value: Any) -> str:
    match value:
        case float():
            return f"{value + 0.0:.3g}"  # no -0
        case list():
            return f"({', '.join(map(_shown, value))})"
        case {"shape": list(shape), "low": low, "high": high}:
            return f"of {'×'.join(map(str, shape))} from {low:.3g} to {high:.3g}"
    return str(value)


def _plain(value: Any) -> Any:
    """A drawn value as plain data; of a large tensor its shape and its range."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Enum():
            return value.name.lower()
        case Tensor() | np.ndarray():
            numbers = torch.as_tensor(value).detach().as_subclass(Tensor)
            if numbers.numel() == 1:
                return numbers.item()
            if numbers.numel() <= _FEW:
                return numbers.tolist()
            low, high = float(numbers.min()), float(numbers.max())
            return {"shape": list(numbers.shape), "low": low, "high": high}
        case np.generic():
            return value.item()
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return type(value).__name__
