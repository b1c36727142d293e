"""The cost of the frozen part of a model on this machine, measured by a subprocess that builds it without weights."""

from collections.abc import Mapping
from typing import Any

from leaven.catalog import model_survey
from leaven.formats.machine import cores, memory
from leaven.language.record import Record

_SECONDS = 120.0
_DOING = "measuring the frozen part of the model (once)…"


class FrozenPart(Record):
    """The layers before the first trainable one."""

    ends: tuple[str, ...]  # the last of these layers
    image_bytes: int  # of their outputs for an image
    image_seconds: float | None  # that they take for it; None where it could not be measured
    is_processor_time: bool  # of one thread; otherwise that of another device


def measure(model: Mapping[str, Any], size: tuple[int, int], freeze: Mapping[str, Any]) -> FrozenPart | None:
    """The cost of a part for images of a size; None where it is not known. Arguments as in `leaven.survey`."""
    machine = {"cores": cores(), "memory": memory()}  # a cache may be shared by machines
    request = {**model, "input_size": list(size), "freeze": dict(freeze), "machine": machine}
    answer = model_survey.ask("frozen_part", request, _SECONDS, _DOING)
    if answer is None or answer.get("error"):
        return None
    return FrozenPart(
        tuple(answer["ends"]), answer["image_bytes"], answer["image_seconds"], answer["is_processor_time"]
    )
