"""Shapes through a pipeline of components, by the torch-free rules on their cards."""

from dataclasses import dataclass
from typing import Any

from leaven.binding.scope import Scope
from leaven.catalog.values import FromData, Invocation, Written
from leaven.language.diagnostics import Spot
from leaven.recipe.data import DataFacts

_FORMS = {"vector": "a vector", "image": "an image"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What flows between two stages. Sizes that are not known yet are None."""

    form: str  # image or vector
    channels: int | None
    height: int | None = None

    def __str__(self) -> str:
        if self.form == "vector":
            return f"a vector of {self.channels}" if self.channels else "a vector"
        size = f" of {self.height} x {self.height}" if self.height else ""
        return f"an image with {self.channels} channels{size}" if self.channels else f"an image{size}"


def check_shapes(stages: tuple[Invocation, ...], data: DataFacts, scope: Scope) -> None:
    """Follow the data through the stages, and report the first that can't take what comes."""
    shape = Shape("image", data.channels, data.size[0] if data.size else None)
    previous = "the data"
    for stage in stages:
        takes = stage.card.component.input_form
        assert isinstance(stage.origin, Written)
        if takes not in ("any", shape.form):
            help_text = "put `global_pool()` before it" if takes == "vector" else "move it before the pooling"
            scope.report(
                "wrong-shape",
                f"`{stage.card.bare_name}` takes {_FORMS[takes]}, and {previous} gives {shape}",
                Spot(stage.origin.span, f"gets {shape}"),
                fix=help_text,
            )
            return
        if stage.card.kind == "user":
            return
        shape = _after(stage, shape)
        previous = f"`{stage.card.bare_name}`"
    last = stages[-1]
    assert isinstance(last.origin, Written)
    if shape.form != "vector":
        scope.report(
            "wrong-shape",
            f"the model ends with {shape}, and must end with a vector of outputs",
            Spot(last.origin.span, "the last stage"),
            fix=f"end with `-> global_pool() -> linear({_outputs(scope)})`",
        )
    elif scope.outputs is not None and shape.channels is not None and shape.channels != scope.outputs:
        scope.report(
            "class-count",
            f"the model has {shape.channels} outputs, and the data needs {scope.outputs}",
            Spot(last.origin.span, "the last stage"),
            fix=f"write `linear({_outputs(scope)})`: it follows the data",
        )


def _outputs(scope: Scope) -> str:
    """The name by which a recipe has the number of outputs."""
    return "classes" if scope.has_classes else "outputs"


def channels_through(
    stages: tuple[Invocation, ...], channels: int | None, size: tuple[int, int] | None
) -> tuple[tuple[Invocation, int | None], ...]:
    """Each stage with the number of channels that reach it, as far as they are known."""
    shape = Shape("image", channels, size[0] if size else None)
    found = []
    for stage in stages:
        found.append((stage, shape.channels))
        shape = _after(stage, shape) if stage.card.kind != "user" else Shape("any", None)
    return tuple(found)


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
