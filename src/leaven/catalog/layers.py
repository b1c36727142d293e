"""The layers of a model, found by a subprocess that builds it without weights.

How a model is built and which of its layers are the head is decided in `leaven.survey.layers`.
"""

from collections.abc import Mapping, Set
from dataclasses import field, replace
from math import prod
from typing import Any, NamedTuple

from leaven.catalog import model_survey
from leaven.catalog.traits import as_tuples
from leaven.formats.layer_names import is_under
from leaven.language.record import Record

_SECONDS = 300.0
_DOING = "building the model without its weights, to find its layers (once)…"


class LayerParameter(NamedTuple):
    """One parameter of a model, and the module that owns it."""

    name: str
    count: int  # type: ignore[assignment]  # of its elements; nobody needs tuple.count here
    shape: tuple[int, ...]
    module_type: str
    module_path: str


class LayerModule(NamedTuple):
    """One module of a model."""

    path: str
    type: str
    is_plain: bool = False  # a linear layer or an ordinary convolution, which adapters can be added to


class Layers(Record):
    """The parameters and modules of a model.

    `error` says why they are not known, `lazy` which layers have no sizes yet; then all else is empty. If
    `is_unanswered`, the model is not to blame: the subprocess took too long or failed itself.
    """

    parameters: tuple[LayerParameter, ...] = ()  # in the order of the forward pass, where `is_forward_order`
    modules: tuple[LayerModule, ...] = ()
    head: tuple[str, ...] = ()
    stem: tuple[str, ...] = ()
    stages: tuple[tuple[str, ...], ...] = ()
    is_forward_order: bool = False
    input_channels: int | None = None
    classes: int | None = None
    fixed_input_size: tuple[int, int] | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of each module's output for one sample
    flops: Mapping[str, int] = field(default_factory=dict)  # for one sample
    trial_size: tuple[int, int] | None = None  # of that sample
    lazy: tuple[tuple[str, str], ...] = ()  # path and class
    error: str = ""
    is_unanswered: bool = False
    matched: dict[object, frozenset[str]] = field(default_factory=dict, init=False, compare=False)  # for `selectors.py`

    def fitted(self, classes: int) -> "Layers":
        """The same model with a head for another number of classes."""
        parameters = tuple(
            _resized(parameter, classes)
            if parameter.shape[:1] == (self.classes,) and is_under(parameter.module_path, self.head)
            else parameter
            for parameter in self.parameters
        )
        shapes = dict(self.shapes)
        for path, shape in self.shapes.items():
            is_of_head = is_under(path, self.head) or any(is_under(head, [path]) for head in self.head)
            if shape == (self.classes,) and is_of_head:
                shapes[path] = (classes,)
        changed = {new.module_path for old, new in zip(self.parameters, parameters, strict=True) if new is not old}
        flops = self._fitted_flops(changed, classes)
        return replace(self, parameters=parameters, shapes=shapes, flops=flops, classes=classes)

    def _fitted_flops(self, changed: Set[str], classes: int) -> dict[str, int]:
        """The FLOPs after a layer's have changed with its outputs; those of a module are the sum of its layers'."""
        flops = dict(self.flops)
        for layer in changed & self.flops.keys():
            more = self.flops[layer] * classes // (self.classes or 1) - self.flops[layer]
            for path in flops:
                flops[path] += more if is_under(layer, [path]) else 0
        return flops


def _resized(parameter: LayerParameter, first: int) -> LayerParameter:
    shape = (first, *parameter.shape[1:])
    return parameter._replace(shape=shape, count=prod(shape))


def ask(request: Mapping[str, Any], seconds: float = _SECONDS) -> Layers | None:
    """The layers of the requested model (`leaven.survey.layers` says how to request); None without torch."""
    answer = model_survey.ask("layers", request, seconds, _DOING)
    if answer is None:
        return None
    return from_answer(answer)


def from_answer(answer: Mapping[str, Any]) -> Layers:
    """The layers in an answer of the survey, whose keys are the fields of `Layers`."""
    fields: dict[str, Any] = as_tuples(answer)
    fields["parameters"] = tuple(LayerParameter(*entry) for entry in fields.get("parameters", ()))
    fields["modules"] = tuple(LayerModule(*entry) for entry in fields.get("modules", ()))
    return Layers(**fields)
