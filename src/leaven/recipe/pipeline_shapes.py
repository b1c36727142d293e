"""Shapes through a pipeline of components, by the torch-free rules on their cards."""

from typing import Any

from leaven.binding.scope import Scope
from leaven.catalog.values import FromData, Invocation
from leaven.language.record import Record
from leaven.messages import models as messages
from leaven.recipe.data import DataFacts


class Shape(Record):
    """The shape between two stages. Sizes that are not known yet are None."""

    form: str  # image or vector
    channels: int | None
    height: int | None = None

    def __str__(self) -> str:
        if self.form == "vector":
            return f"(N, {self.channels or 'C'})"
        return f"(N, {self.channels or 'C'}, {self.height or 'H'}, {self.height or 'W'})"


def check_shapes(stages: tuple[Invocation, ...], data: DataFacts, scope: Scope) -> None:
    """Follow the data through the stages, and report the first that can't take its input."""
    shape = Shape("image", data.channels, data.size[0] if data.size else None)
    previous = "the data"
    for stage in stages:
        takes = stage.card.component.input_form
        if takes not in ("any", shape.form):
            scope.add(messages.wrong_input(stage, takes, previous, str(shape)))
            return
        if stage.card.kind == "user":
            return
        shape = _after(stage, shape)
        previous = f"`{stage.card.bare_name}`"
    outputs = "classes" if scope.has_classes else "outputs"
    is_mask = data.task.traits.target_kind == "mask"
    if shape.form != ("image" if is_mask else "vector"):
        scope.add(messages.wrong_output(stages[-1], str(shape), scope.outputs, outputs, is_mask=is_mask))
    elif scope.outputs is not None and shape.channels is not None and shape.channels != scope.outputs:
        scope.add(messages.output_count(stages[-1], shape.channels, scope.outputs, outputs))


def channels_through(
    stages: tuple[Invocation, ...], channels: int | None, size: tuple[int, int] | None
) -> tuple[tuple[Invocation, int | None], ...]:
    """Each stage with the number of channels that reach it, as far as they are known."""
    shape = Shape("image", channels, size[0] if size else None)
    reached = []
    for stage in stages:
        reached.append((stage, shape.channels))
        shape = _after(stage, shape) if stage.card.kind != "user" else Shape("any", None)
    return tuple(reached)


def _after(stage: Invocation, shape: Shape) -> Shape:
    component = stage.card.component
    channels = shape.channels
    if component.out_channels:
        channels = _number(stage.value(component.out_channels))
    elif component.flattens and shape.form == "image":
        channels = channels * shape.height * shape.height if channels and shape.height else None
    stride = _number(stage.value(component.downsamples_by)) if component.downsamples_by else 1
    height = -(-shape.height // stride) if shape.height and stride else None  # strides round up
    form = shape.form if component.output_form == "same" else component.output_form
    return Shape(form, channels, height if form == "image" else None)


def _number(value: Any) -> int | None:
    if isinstance(value, FromData):
        return value.number
    return value if isinstance(value, int) else None
