"""The costs of a model for one input: parameters, FLOPs, and latency, which is measured."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from leaven.bundle import Bundle
from leaven.bundle.asking import ask, prepare
from leaven.bundle.golden import make_inputs
from leaven.catalog.layers import Layers
from leaven.formats.finite_json import as_json
from leaven.runtime.data.model_inputs import first_tensor

ROUNDS = 21  # in turns: what slows the machine down slows both
_WARM_UP = 3


@dataclass(frozen=True)
class Cost:
    """What a model costs for one input; None where that is not known."""

    parameters: int
    flops: int | None
    milliseconds: float | None = None  # the median, on this machine
    shape: tuple[int, ...] = ()  # of the input

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            "parameters": self.parameters,
            "flops": self.flops,
            "milliseconds": self.milliseconds,
            "input": list(self.shape),
        }


@dataclass(frozen=True)
class Probe:
    """A model with an input of its usual size."""

    run: Callable[[], Any]
    shape: tuple[int, ...]


def probe(bundle: Bundle) -> Probe:
    """A model that can be called as often as is wanted, on an input that holds nothing of the user's data."""
    manifest, samples = bundle.manifest, bundle.manifest.task.Samples()
    near = manifest.shape[-2:] if len(manifest.shape) > 2 else (64, 64)
    stored = make_inputs(manifest.takes, (near[0], near[1]))[0]
    made, place = prepare(manifest.takes.as_input(stored), bundle.preprocess, samples)
    return Probe(lambda: ask(bundle.model, [made], [place], samples), tuple(first_tensor(made).shape))


def flops_by_layer(bundle: Bundle, run: Probe) -> Mapping[str, int]:
    """The FLOPs of each layer for the input; those of the whole model under the empty path."""
    counter = FlopCounterMode(display=False)
    with counter:
        run.run()
    root, counts = type(bundle.model).__name__, counter.get_flop_counts()
    paths = {path: f"{root}.{path}" if path else root for path, _ in bundle.model.named_modules()}
    return {path: sum(counts[name].values()) for path, name in paths.items() if name in counts}


def parameter_count(bundle: Bundle) -> int:
    return sum(parameter.numel() for parameter in bundle.model.parameters())


def latencies(a: Probe, b: Probe, rounds: int = ROUNDS) -> tuple[float, float]:
    """The median milliseconds of both, measured in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(_WARM_UP + rounds):
        for one, found in zip((a, b), times, strict=True):
            began = time.perf_counter()
            one.run()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn >= _WARM_UP:
                found.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[0]), statistics.median(times[1])


def cost_of_recipe(layers: Layers) -> Cost:
    """The cost of a model that was never trained, for an image of the size of a trial; latency is not measured."""
    flops = sum(count for path, count in layers.flops.items() if "." not in path)
    size = (layers.input_channels or 3, *layers.trial_size) if layers.trial_size else ()
    return Cost(sum(one.count for one in layers.parameters), flops or None, shape=size)
