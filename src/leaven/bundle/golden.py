"""Made pictures and what the model says to them, kept in the bundle to see that it still says the same elsewhere.

The pictures are drawn by chance from a fixed seed; nothing of the user's data is in them.
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
from leaven.runtime.failures import Failure

Steps = Callable[[Any], Any] | None
COUNT = 3
LARGEST = 1024  # pixels
_SEED = 20_261
SAME_HERE = 1e-3  # as a share of the largest output: another order of sums on the same machine
SAME_ANYWHERE = 1e-2  # other hardware, other versions of torch and Pillow
SAME_ROUGHLY = 5e-2  # half precision against single


def made_inputs(takes: Takes, near: tuple[int, int]) -> list[Tensor]:
    """A few inputs of the kind that the steps take, of heights and widths near the given."""
    chance = torch.Generator().manual_seed(_SEED)
    if takes.kind == "tensor":
        return [torch.rand(takes.size, generator=chance) for _ in range(COUNT)]
    if takes.kind == "array" or takes.size:
        height, width = takes.size[:2] if takes.kind == "array" else takes.size[::-1]
        sizes = [(height, width)] * COUNT
    else:
        height, width = near
        sizes = [(height, width), (height + height // 4, width), (height, width + width // 3)]
    channels = 1 if takes.mode in ("L", "1") else len(takes.mode)
    return [_drawn(*size, channels, chance) for size in sizes]


def as_input(made: Tensor, takes: Takes) -> Any:
    """A made input in the form in which the steps take it."""
    if takes.kind == "tensor":
        return made
    pixels = made.numpy()
    pixels = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    return pixels.copy() if takes.kind == "array" else Image.fromarray(pixels).convert(takes.mode)


def _drawn(height: int, width: int, channels: int, chance: torch.Generator) -> Tensor:
    """Patches of colour under a little noise: like a photograph, it has edges, surfaces and grain."""
    height, width = (min(side, LARGEST) for side in (height, width))
    coarse = torch.rand((1, channels, 5, 5), generator=chance)
    smooth = nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")[0]
    blocks = torch.rand((1, channels, 3, 4), generator=chance)
    edges = nn.functional.interpolate(blocks, size=(height, width), mode="nearest")[0]
    grain = torch.rand((channels, height, width), generator=chance) - 0.5
    values = 0.5 * smooth + 0.4 * edges + 0.2 * grain
    return (values.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()


def prepared(made: Tensor, takes: Takes, steps: Steps) -> Tensor:
    """What the steps make of a made input; chance in them, if there is any, is always the same."""
    with settled_chance():
        got = as_input(made, takes) if steps is None else steps(as_input(made, takes))
    if not isinstance(got, Tensor):
        got = torch.as_tensor(np.asarray(got)) if isinstance(got, np.ndarray) else got
    if not isinstance(got, Tensor):
        raise Failure(f"the steps end with a {type(got).__name__}, not with a tensor")
    return got.as_subclass(Tensor)


def answers(model: nn.Module, inputs: list[Tensor]) -> Tensor:
    """The model's outputs, one input at a time: they may differ in size."""
    place = next((value for value in model.parameters()), torch.empty(0))
    with evaluating(model), torch.no_grad(), settled_chance():
        said = [model(one[None].to(place.device, place.dtype)) for one in inputs]
    if not all(isinstance(one, Tensor) and one.ndim == 2 for one in said):
        raise Failure("the model does not give one number for each class")
    outputs = torch.cat(said).float().cpu()
    if not outputs.isfinite().all():
        raise Failure("the model's outputs are not all numbers", "it was spoilt in training: try a lower learning rate")
    return outputs


def distance(found: Tensor, expected: Tensor) -> float:
    """How far outputs are from those expected, as a share of the largest; infinite where they can't be compared."""
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
        raise ValueError("inputs and outputs don't belong together")
    return inputs, entries["outputs"]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode; afterwards each of its parts in the mode in which it was."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextmanager
def settled_chance() -> Iterator[None]:
    """Chance that is always the same, and the caller's own left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_SEED)  # torch.manual_seed would sow every device's chance as well
        yield
