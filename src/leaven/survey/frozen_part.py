"""Builds a model without its weights, freezes layers as a phase does, and measures what the planner would store of it:
`python -m leaven.survey.frozen_part`.

Reads a request as JSON from stdin and writes the answer as JSON to stdout. A request is one of `layers.py` with

    "input_size": [224, 224], "freeze": {"all_but": ["fc"]}
"""

import time
from typing import Any

import torch
from torch import nn

from leaven.formats.machine import memory
from leaven.runtime.model.freezing import freeze
from leaven.runtime.model.graph import find_cut
from leaven.survey import model_parts
from leaven.survey.layers import build, message, reply

_IMAGES = 4  # that the time is measured with
_TIMES = 3  # the first prepares kernels as well
_SHARE_OF_MEMORY = 4  # a quarter: what is larger is not measured


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The fields of `leaven.catalog.frozen_part.FrozenPart`, or why they are not known."""
    try:
        model = build(request)
        freeze(model.train(), **request["freeze"])
        cut = find_cut(model)
        if cut is None:
            return {"error": "a trainable layer comes first"}
        part = cut.before(model)
        channels = model_parts.input_channels(model, request.get("arguments", {})) or request.get("channels") or 3
        shape = (_IMAGES, channels, *request["input_size"])
        outputs = part(torch.zeros(shape, device="meta"))
        image_bytes = sum(output.numel() * output.element_size() for output in outputs) // _IMAGES
        return {
            "ends": list(cut.names),
            "image_bytes": image_bytes,
            "image_seconds": _seconds(part, shape),
            "is_processor_time": not torch.cuda.is_available(),
        }
    except (Exception, SystemExit) as error:
        return {"error": message(error)}


def _seconds(part: nn.Module, shape: tuple[int, ...]) -> float | None:
    """How long an image takes, with random weights; None where that can't be tried.

    On a CPU it is the time of one thread: it is the same on a busy machine.
    """
    weights = [*part.parameters(), *part.buffers()]
    if sum(weight.numel() * weight.element_size() for weight in weights) > memory() // _SHARE_OF_MEMORY:
        return None
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    try:
        part.to_empty(device=device)
        _fill(part)
        images = torch.randn(shape, device=device)
        taken = [_timed(part, images) for _ in range(_TIMES)]
    except Exception:
        return None
    return min(taken) / len(images)


@torch.no_grad()
def _fill(part: nn.Module) -> None:
    """Values that neither grow nor vanish on their way through the layers: tiny numbers take longer."""
    for parameter in part.parameters():
        if parameter.ndim > 1:
            nn.init.kaiming_normal_(parameter)
        else:
            parameter.fill_(1.0)
    for buffer in part.buffers():
        buffer.fill_(1.0 if buffer.is_floating_point() else 0)


@torch.no_grad()
def _timed(part: nn.Module, images: torch.Tensor) -> float:
    clock = time.perf_counter if images.is_cuda else time.process_time
    began = clock()
    part(images)
    if images.is_cuda:
        torch.cuda.synchronize()
    return clock() - began


if __name__ == "__main__":
    reply(answer)
