"""Golden inputs and outputs: random images and the model's outputs for them, by which loading verifies the model.

The images are random, from a fixed seed; they hold nothing of the user's data.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import safetensors.torch
import torch
from PIL import Image
from torch import Tensor, nn

from leaven.bundle.inputs import Takes
from leaven.runtime.data.model_inputs import moved
from leaven.runtime.failures import Failure
from leaven.runtime.model.modes import evaluating
from leaven.tasks.protocol import Task

Steps = Callable[[Any], Any] | None
COUNT = 3
LARGEST = 1024  # pixels
_SEED = 20_261
SAME_HERE = 1e-3  # relative to the largest output: another order of sums on the same machine
SAME_ANYWHERE = 1e-2  # other hardware, other versions of torch and Pillow
SAME_ROUGHLY = 5e-2  # half precision against single
_TEXTS = (  # two each, for models that read pairs
    ("The quick brown fox jumps over the lazy dog.", "A fox is quick."),
    ("1,234 words — naïve, größer; 東京!", "None of them are ours."),
    ("no", "Yes, it is."),
)


def make_inputs(takes: Takes, near: tuple[int, int]) -> list[Tensor]:
    """A few inputs of the kind that the transforms take, of heights and widths near the given ones."""
    generator = torch.Generator().manual_seed(_SEED)
    if takes.kind == "text":
        return [_bytes("\0".join(text[: takes.size[0]])) for text in _TEXTS]
    if takes.kind == "tensor":
        return [torch.rand(takes.size, generator=generator) for _ in range(COUNT)]
    if takes.kind == "array" or takes.size:
        height, width = takes.size[:2] if takes.kind == "array" else takes.size[::-1]
        sizes = [(height, width)] * COUNT
    else:
        height, width = near
        sizes = [(height, width), (height + height // 4, width), (height, width + width // 3)]
    channels = 1 if takes.mode in ("L", "1") else len(takes.mode)
    return [_drawn(*size, channels, generator) for size in sizes]


def as_input(made: Tensor, takes: Takes) -> Any:
    """A golden input in the form in which the transforms take it."""
    if takes.kind == "tensor":
        return made
    if takes.kind == "text":
        parts = tuple(bytes(made.tolist()).decode().split("\0"))
        return parts[0] if len(parts) == 1 else parts
    pixels = made.numpy()
    pixels = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    return pixels.copy() if takes.kind == "array" else Image.fromarray(pixels).convert(takes.mode)


def _bytes(text: str) -> Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def _drawn(height: int, width: int, channels: int, generator: torch.Generator) -> Tensor:
    """Patches of colour and a little noise: like a photo, it has edges, surfaces and grain."""
    height, width = (min(side, LARGEST) for side in (height, width))
    coarse = torch.rand((1, channels, 5, 5), generator=generator)
    smooth = nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")[0]
    blocks = torch.rand((1, channels, 3, 4), generator=generator)
    edges = nn.functional.interpolate(blocks, size=(height, width), mode="nearest")[0]
    grain = torch.rand((channels, height, width), generator=generator) - 0.5
    values = 0.5 * smooth + 0.4 * edges + 0.2 * grain
    return (values.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()


def prepared(made: Tensor, takes: Takes, steps: Steps) -> Any:
    """What the transforms make of a golden input; random ones are seeded."""
    with fixed_seed():
        got = as_input(made, takes) if steps is None else steps(as_input(made, takes))
    if isinstance(got, dict):
        return got
    if not isinstance(got, Tensor):
        got = torch.as_tensor(np.asarray(got)) if isinstance(got, np.ndarray) else got
    if not isinstance(got, Tensor):
        raise Failure(f"the transforms end with a {type(got).__name__}, not with a tensor")
    return got.as_subclass(Tensor)


def outputs_of(model: nn.Module, inputs: list[Any], task: Task) -> Tensor:
    """What the model computes, a row for each input, one at a time: they may differ in size."""
    place = next((value for value in model.parameters()), torch.empty(0))
    with evaluating(model), torch.no_grad(), fixed_seed():
        found = [task.row(model, moved(one, place.device, place.dtype)) for one in inputs]
    outputs = torch.stack(found).float().cpu()
    if not outputs.isfinite().all():
        raise Failure("the outputs of the model are not finite", "training diverged: try a lower learning rate")
    return outputs


def distance(found: Tensor, expected: Tensor) -> float:
    """The largest difference between outputs, relative to the largest output; infinite where shapes differ."""
    if found.shape != expected.shape:
        return float("inf")
    apart = (found.double() - expected.double()).abs().max()
    share = float(apart / expected.double().abs().max().clamp_min(1e-6))
    return share if np.isfinite(share) else float("inf")


def pack(inputs: list[Tensor], outputs: Tensor) -> bytes:
    entries = {f"input.{number}": made for number, made in enumerate(inputs)}
    return bytes(safetensors.torch.save({**entries, "outputs": outputs.contiguous()}))


def unpack(content: bytes) -> tuple[list[Tensor], Tensor]:
    entries = safetensors.torch.load(content)
    inputs = [entries[f"input.{number}"] for number in range(len(entries) - 1)]
    if not inputs or len(inputs) != len(entries["outputs"]):
        raise ValueError("inputs and outputs don't match")
    return inputs, entries["outputs"]


@contextmanager
def fixed_seed() -> Iterator[None]:
    """A fixed seed for what is random inside; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_SEED)  # torch.manual_seed would seed every device as well
        yield
