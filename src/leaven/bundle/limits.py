"""How large what a bundle describes may be, so that one made to exhaust a machine is refused before it does.

A model may have as many weights as the bundle holds for it, with room for layers that are replaced or pruned.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

MOST_MODULES = 20_000
SPARE_ELEMENTS = 2**26  # of layers that the bundle has no weights for: a published head for 22,000 classes
MOST_PRUNED = 64  # a pruned model was at most so many times as large
MOST_ELEMENTS_BELOW = 2**31  # of a model whose weights are elsewhere
MOST_STEPS = 200
LARGEST_SIDE = 4096  # pixels that a transform may make
_SIDES = {"size", "max_size", "min_size", "padding", "patch_size"}
LARGEST_RANK = 2**16
MOST_INPUTS = 16
LARGEST_INPUT = 2**24  # numbers
FLATTEST_INPUT = 16  # the longer side of an image, relative to the other


class TooLarge(ValueError):
    """What a bundle describes is larger than the limits here."""


def most_elements(weights: Mapping[str, Tensor], *, is_pruned: bool, is_over: bool) -> int:
    """How many numbers the parameters of a bundle's model may have, while it is built."""
    held = sum(value.numel() for value in weights.values())
    if is_over:
        return MOST_ELEMENTS_BELOW
    return held * (MOST_PRUNED if is_pruned else 2) + SPARE_ELEMENTS


@contextmanager
def limited(elements: int) -> Iterator[None]:
    """While models are built, stop when they have more modules or numbers than that."""
    modules = 0
    left = elements

    def on_module(parent: nn.Module, name: str, child: nn.Module | None) -> None:
        nonlocal modules
        modules += 1
        if modules > MOST_MODULES:
            raise TooLarge(f"its model has more than {MOST_MODULES:,} modules")

    def on_tensor(parent: nn.Module, name: str, value: Tensor | None) -> None:
        nonlocal left
        if isinstance(value, Tensor) and not nn.parameter.is_lazy(value):
            left -= value.numel()
        if left < 0:
            raise TooLarge(f"its model has more than {elements:,} numbers, far more than its weights")

    added = [
        hooks.register_module_module_registration_hook(on_module),
        hooks.register_module_parameter_registration_hook(on_tensor),
        hooks.register_module_buffer_registration_hook(on_tensor),
    ]
    try:
        yield
    finally:
        for one in added:
            one.remove()


def check_steps(data: Any) -> None:
    """Refuse transforms, as data, that are too many or make too large images."""
    steps = 0
    found = [data]
    while found:
        one = found.pop()
        if isinstance(one, list):
            found += one
        if isinstance(one, dict):
            steps += "step" in one or "code" in one
            found += one.values()
            for name in _SIDES & one.keys():
                if any(side > LARGEST_SIDE for side in _numbers(one[name])):
                    raise TooLarge(f"a transform makes images of more than {LARGEST_SIDE} pixels a side")
    if steps > MOST_STEPS:
        raise TooLarge(f"it has {steps} transforms, more than {MOST_STEPS}")


def check_adapters(over: Any) -> None:
    """Refuse adapters, as data, of a rank that no layer has."""
    for adapter in over["adapters"] if over else ():
        if any(number > LARGEST_RANK for value in adapter.values() for number in _numbers(value)):
            raise TooLarge(f"an adapter has a rank of more than {LARGEST_RANK:,}")


def check_inputs(inputs: list[Tensor], outputs: Tensor) -> None:
    """Refuse golden inputs that are too many or too large, and outputs that are not one row for each."""
    if len(inputs) > MOST_INPUTS:
        raise TooLarge(f"it has {len(inputs)} golden inputs, more than {MOST_INPUTS}")
    for one in inputs:
        sides = one.shape[:2] if one.dtype == torch.uint8 else one.shape[-2:]
        is_flat = bool(sides) and max(sides) > FLATTEST_INPUT * max(1, min(sides))
        if one.numel() > LARGEST_INPUT or is_flat:
            raise TooLarge(f"a golden input has the shape {tuple(one.shape)}")
    if outputs.ndim != 2:
        raise ValueError(f"the golden outputs have {outputs.ndim} dimensions, not 2")


def _numbers(value: Any) -> list[float]:
    values = value if isinstance(value, list) else [value]
    return [abs(each) for each in values if isinstance(each, int | float)]
