"""Heads that are solved: whether there is a linear layer to solve, and what it is solved for."""

from collections.abc import Iterator

from leaven.catalog.layers import LayerParameter, Layers
from leaven.catalog.values import Invocation
from leaven.language.diagnostics import Diagnostic
from leaven.messages import training as messages
from leaven.recipe.default_transforms import is_random
from leaven.recipe.draft import Draft
from leaven.recipe.recipe import Data, Phase, Technique


def check(draft: Draft) -> Iterator[Diagnostic]:
    for phase in draft.phases:
        if (solver := phase.solver) is None:
            continue
        yield from _techniques(phase, solver)
        yield from _images(phase, solver, draft.data)
        if draft.model.layers is not None:
            yield from _head(phase, solver, draft.model.layers, draft.model_facts.name)


def _techniques(phase: Phase, solver: Invocation) -> Iterator[Diagnostic]:
    """What changes the steps of a training loop; what only prepares the model is fine."""
    for technique in phase.techniques:
        if isinstance(technique, Technique) and set(technique.invocation.card.technique.hooks) - {"on_model"}:
            yield messages.solved_with_technique(solver, technique.invocation)


def _images(phase: Phase, solver: Invocation, data: Data) -> Iterator[Diagnostic]:
    """Images that are other ones each time they are read, without a word on how many of them to use."""
    calls = [technique.invocation for technique in phase.techniques if isinstance(technique, Technique)]
    random = [stage.card.friendly for stage in data.train.stages if is_random(stage)] if data.train is not None else []
    if data.train is not None and random and not any(call.card.technique.stores_views for call in calls):
        yield messages.solved_with_random_images(solver, data.train.origin, random)


def _head(phase: Phase, solver: Invocation, layers: Layers, model: str) -> Iterator[Diagnostic]:
    """More than a linear layer that is trainable."""
    if phase.freezing is None:
        return
    trainable = [each for each in layers.parameters if each.name not in phase.freezing.frozen]
    modules = dict.fromkeys(f"{each.module_path} ({each.module_type})" for each in trainable)
    if len(modules) != 1 or not all(map(_is_of_linear_layer, trainable)):
        yield messages.not_a_linear_head(solver, model, list(modules))


def _is_of_linear_layer(parameter: LayerParameter) -> bool:
    """Whether a parameter is the bias or the weight of a linear layer, or of a convolution of single pixels."""
    of_linear = parameter.module_type in ("Linear", "NonDynamicallyQuantizableLinear")
    is_pixelwise = parameter.module_type == "Conv2d" and all(size == 1 for size in parameter.shape[2:])
    return of_linear or is_pixelwise
