"""The cost of a model: its parameters, FLOPs for one image, the size of its file, and the time on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from leaven.runtime.model.looking import looking_at
from leaven.runtime.model.modes import evaluating
from leaven.runtime.run.timing import seconds_of

MOST_LAYERS = 12  # in a table
_SECONDS = 0.5  # in which images are timed
_PREFIXES = ("", "k", "M", "G", "T")


@dataclass(frozen=True)
class Cost:
    """The cost of a model for one image. Of `bytes` is the file of its weights."""

    parameters: int
    flops: int
    bytes: int
    seconds: float


def cost_of(model: nn.Module, example: Tensor) -> Cost:
    """The cost of a model, of which a copy runs on one image."""
    with looking_at(model) as copied, evaluating(copied), torch.no_grad():
        return Cost(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            flops=flops_of(copied, example),
            bytes=sum(value.numel() * value.element_size() for value in model.state_dict().values()),
            seconds=seconds_of({"": lambda: copied(example)}, example.device, enough=_SECONDS)[""],
        )


def flops_of(model: nn.Module, example: Tensor) -> int:
    """The additions and multiplications for one image, as torch counts them."""
    with evaluating(model), torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(example)
    return int(counter.get_total_flops())


def cost_table(before: Cost, after: Cost, *, has_time: bool = True) -> str:
    """A small table of what it was and what it is; `has_time` where the times are worth comparing."""
    rows = [
        ("parameters", before.parameters, after.parameters, ""),
        ("FLOPs", before.flops, after.flops, ""),
        ("size", before.bytes, after.bytes, "B"),
        *([("time per image", before.seconds, after.seconds, "s")] if has_time else []),
    ]
    lines = [("", "before", "after", "")]
    lines += [
        (name, _with_unit(was, unit), _with_unit(now, unit), f"{100 * (now / was - 1):+.0f} %")
        for name, was, now, unit in rows
        if was
    ]
    return "\n".join(_aligned(lines))


def cost_title(before: Cost, after: Cost) -> str:
    """`parameters 11.2 M to 4.1 M, FLOPs 3.6 G to 1.8 G`."""
    pairs = (("parameters", before.parameters, after.parameters), ("FLOPs", before.flops, after.flops))
    return ", ".join(f"{name} {_with_unit(was, '')} to {_with_unit(now, '')}" for name, was, now in pairs)


def channel_table(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """The channels of each layer that lost some; of many layers, the first."""
    changed = [(name, was, after[name]) for name, was in before.items() if after[name] != was]
    lines = [("channels", "before", "after")]
    lines += [(name, str(was), str(now)) for name, was, now in changed[:MOST_LAYERS]]
    more = len(changed) - MOST_LAYERS
    return "\n".join([*_aligned(lines), *([f"  and {more} more layers"] if more > 0 else [])])


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    laid = ("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines)
    return [f"  {line.rstrip()}" for line in laid]


def _with_unit(number: float, unit: str) -> str:
    """A number with few digits: `11.2 M`, `1.34 GB`, `12.1 ms`."""
    if unit == "s":
        return f"{_rounded(1000 * number)} ms"
    power = 0
    while number >= 999.5 and power < len(_PREFIXES) - 1:
        number, power = number / 1000, power + 1
    return f"{_rounded(number)} {_PREFIXES[power]}{unit}".rstrip()


def _rounded(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
