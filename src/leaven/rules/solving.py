"""Heads that are solved: whether there is a linear layer to solve, and what it is solved for."""

from collections.abc import Iterator

from leaven.catalog.layers import LayerParameter, Layers
from leaven.catalog.values import Invocation
from leaven.language.diagnostics import Diagnostic
from leaven.messages import training as messages
from leaven.recipe.reader import Draft
from leaven.recipe.recipe import Data, Phase


def check(draft: Draft) -> Iterator[Diagnostic]:
    for phase in draft.phases:
        if (solver := phase.solver) is None:
            continue
        for call in phase.calls:
            if set(call.card.technique.hooks) - {"on_model"}:  # it changes the steps of a training loop
                yield messages.solved_with_technique(solver, call)
        yield from _images(phase, solver, draft.data)
        if draft.model.layers is not None:
            yield from _head(phase, solver, draft.model.layers, draft.model_facts.name)


def _images(phase: Phase, solver: Invocation, data: Data) -> Iterator[Diagnostic]:
    """Random transforms where the recipe does not say how many views of each image to use."""
    stages = data.train.stages if data.train is not None else ()
    random = [stage.card.friendly for stage in stages if stage.card.transform.is_random]
    if data.train is not None and random and not any(call.card.technique.stores_views for call in phase.calls):
        yield messages.solved_with_random_images(solver, data.train.origin, random)


def _head(phase: Phase, solver: Invocation, layers: Layers, model: str) -> Iterator[Diagnostic]:
    """Trainable layers other than one linear layer."""
    if phase.freezing is None:
        return
    trainable = [parameter for parameter in layers.parameters if parameter.name not in phase.freezing.frozen]
    modules = dict.fromkeys(f"{parameter.module_path} ({parameter.module_type})" for parameter in trainable)
    if len(modules) != 1 or not all(map(_is_of_linear_layer, trainable)):
        yield messages.not_a_linear_head(solver, model, list(modules))


def _is_of_linear_layer(parameter: LayerParameter) -> bool:
    """Whether a parameter is the bias or the weight of a linear layer, or of a convolution of single pixels."""
    of_linear = parameter.module_type in ("Linear", "NonDynamicallyQuantizableLinear")
    is_pixelwise = parameter.module_type == "Conv2d" and all(size == 1 for size in parameter.shape[2:])
    return of_linear or is_pixelwise
