"""Golden inputs and outputs: inputs and the model's outputs for them, by which loading verifies the model.

The inputs are made by what the model takes, random ones from a fixed seed; they hold nothing of the user's data.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from leaven.bundle.inputs import InputKind
from leaven.runtime.data.model_inputs import moved
from leaven.runtime.failures import Failure
from leaven.runtime.model.modes import evaluating
from leaven.tasks.protocol import Task

Steps = Callable[[Any], Any] | None
_SEED = 20_261
SAME_HERE = 1e-3  # relative to the largest output: another order of sums on the same machine
SAME_ANYWHERE = 1e-2  # other hardware, other versions of torch and Pillow
SAME_ROUGHLY = 5e-2  # half precision against single


def make_inputs(takes: InputKind, near: tuple[int, int]) -> list[Tensor]:
    """A few inputs of the kind that the transforms take, of heights and widths near the given ones."""
    return takes.golden_inputs(near, torch.Generator().manual_seed(_SEED))


def prepared(made: Tensor, takes: InputKind, steps: Steps) -> Any:
    """A golden input after the transforms; random ones are seeded."""
    with fixed_seed():
        got = takes.as_input(made) if steps is None else steps(takes.as_input(made))
    if isinstance(got, dict):
        return got
    got = torch.as_tensor(got) if isinstance(got, np.ndarray) else got
    if not isinstance(got, Tensor):
        raise Failure(f"the transforms end with a {type(got).__name__}, not with a tensor")
    return got.as_subclass(Tensor)


def rows_of(model: nn.Module, inputs: list[Any], task: Task) -> list[Tensor]:
    """The row of outputs for each input, one at a time: they may differ in size."""
    place = next((value for value in model.parameters()), torch.empty(0))
    with evaluating(model), torch.no_grad(), fixed_seed():
        return [task.row(model, moved(one, place.device, place.dtype)) for one in inputs]


def outputs_of(model: nn.Module, inputs: list[Any], task: Task) -> Tensor:
    """The rows for some inputs, which must be finite."""
    outputs = torch.stack(rows_of(model, inputs, task)).float().cpu()
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
