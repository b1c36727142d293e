"""How large what a bundle describes may be, so that one made to exhaust a machine is refused before it does.

A model may have as many weights as the bundle holds for it, with room for layers that are replaced or pruned.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from leaven.bundle.tokenizer_trial import Limits

MOST_MODULES = 20_000
SPARE_ELEMENTS = 2**26  # of layers that the bundle has no weights for: a published head for 22,000 classes
SPARE_IN_TEXT = 2**22  # of a text model, all of whose weights are in the bundle
MOST_PRUNED = 64  # a pruned model was at most so many times as large
MOST_ELEMENTS_BELOW = 2**31  # of a model whose weights are elsewhere
MOST_STEPS = 200
LARGEST_SIDE = 4096  # pixels that a transform may make
_SIDES = {"size", "max_size", "min_size", "padding", "patch_size"}
LARGEST_RANK = 2**16
LONGEST_TEXT = 2**17  # tokens
LONGEST_PADDED = 2**13  # tokens that every text is padded to
LARGEST_SETTING = 2**20  # of a text model, where its weights have no larger side
MOST_LAYERS = 1000  # of a text model; some use the same weights in each
SPARE_LABELS = 1000
MOST_INPUTS = 16
LARGEST_INPUT = 2**24  # numbers
TRIAL_MEMORY = 4 * 2**30  # bytes for what a model computes, besides its weights
# Many times what the largest published models take on a usual processor: a slow one must not refuse them.
TRIAL_SECONDS = 300
BYTES_A_SECOND = 2**22  # of a bundle
FLATTEST_INPUT = 16  # the longer side of an image, relative to the other


class TooLarge(ValueError):
    """A bundle describes something larger than the limits here."""


def most_elements(weights: Mapping[str, Tensor], *, is_pruned: bool, is_over: bool, is_text: bool) -> int:
    """How many numbers the parameters of a bundle's model may have, while it is built."""
    held = sum(value.numel() for value in weights.values())
    if is_over:
        return MOST_ELEMENTS_BELOW
    return held * (MOST_PRUNED if is_pruned else 2) + (SPARE_IN_TEXT if is_text else SPARE_ELEMENTS)


def of_trial(elements: int, size: int) -> Limits:
    """The limits for loading and running a bundle of some bytes, whose model has so many numbers at most."""
    copies = 2 * 4 * elements + 4 * size
    return Limits(TRIAL_MEMORY + copies, TRIAL_SECONDS + size // BYTES_A_SECOND)


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
        for hook in added:
            hook.remove()


def check_steps(data: Any) -> None:
    """Refuse transforms, as data, that are too many or make too large images."""
    steps = 0
    todo = [data]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        if isinstance(value, dict):
            steps += "step" in value or "code" in value
            todo += value.values()
            for name in _SIDES & value.keys():
                if any(side > LARGEST_SIDE for side in _numbers(value[name])):
                    raise TooLarge(f"a transform makes images of more than {LARGEST_SIDE} pixels a side")
        match value:
            case {"tokenizer": _, "arguments": {"max_length": int(length), "padding": padding}}:
                most = LONGEST_PADDED if padding == "max_length" else LONGEST_TEXT
                if not 0 < length <= most:
                    raise TooLarge(f"its texts have {length:,} tokens, more than {most:,}")
    if steps > MOST_STEPS:
        raise TooLarge(f"it has {steps} transforms, more than {MOST_STEPS}")


def check_size(takes: Any) -> None:
    """Refuse a size, as data, that every image would be resized to."""
    if any(side > LARGEST_SIDE for side in _numbers(takes.get("size"))):
        raise TooLarge(f"it takes images of more than {LARGEST_SIDE} pixels a side")


def check_configuration(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Refuse the settings of a text model that are larger than the sides of its weights: lists are made of some."""
    side = max((size for value in weights.values() if value.numel() for size in value.shape), default=0)
    labels = config.get("num_labels", 2)
    if not isinstance(labels, int) or not 0 < labels <= max(side, SPARE_LABELS):
        raise TooLarge(f"its model has {labels!r:.20} outputs, more than its weights have")
    todo: list[tuple[str, Any]] = [("", config)]
    while todo:
        name, value = todo.pop()
        if isinstance(value, Mapping):
            todo += value.items()
        if isinstance(value, list):
            todo += [(name, each) for each in value]
        most = MOST_LAYERS if name.endswith(("layers", "_layer")) else max(side, LARGEST_SETTING)
        if isinstance(value, int) and abs(value) > most and "theta" not in name:
            raise TooLarge(f"the `{name}` of its model is {value!r:.20}, more than {most:,}")


def check_adapters(over: Any) -> None:
    """Refuse adapters, as data, of a rank that no layer has."""
    for adapter in over["adapters"] if over else ():
        if any(number > LARGEST_RANK for value in adapter.values() for number in _numbers(value)):
            raise TooLarge(f"an adapter has a rank of more than {LARGEST_RANK:,}")


def check_inputs(inputs: list[Tensor], outputs: Tensor) -> None:
    """Refuse golden inputs that are too many or too large, and outputs that are not one row for each."""
    if len(inputs) > MOST_INPUTS:
        raise TooLarge(f"it has {len(inputs)} golden inputs, more than {MOST_INPUTS}")
    for made in inputs:
        sides = made.shape[:2] if made.dtype == torch.uint8 else made.shape[-2:]
        is_flat = bool(sides) and max(sides) > FLATTEST_INPUT * max(1, min(sides))
        if made.numel() > LARGEST_INPUT or is_flat:
            raise TooLarge(f"a golden input has the shape {tuple(made.shape)}")
    if outputs.ndim != 2:
        raise ValueError(f"the golden outputs have {outputs.ndim} dimensions, not 2")


def _numbers(value: Any) -> list[float]:
    values = value if isinstance(value, list) else [value]
    return [abs(each) for each in values if isinstance(each, int | float)]
