"""Pruning: the layers that it takes from, its order with other techniques, and its length."""

from collections.abc import Iterator, Sequence

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Word, matching
from leaven.catalog.values import Quantity, Written
from leaven.language.diagnostics import Diagnostic
from leaven.messages import freezing as messages
from leaven.recipe.adapters import is_adapter
from leaven.recipe.reader import Draft
from leaven.recipe.recipe import Phase, Pruning, Reinit, Technique


def check(draft: Draft) -> Iterator[Diagnostic]:
    """Every pruning of a recipe, each with what came before it."""
    earlier: list[Technique | Pruning] = []  # adapters and prunings
    for phase in draft.phases:
        for technique in phase.techniques:
            if isinstance(technique, Reinit):
                yield from _reinit(technique, earlier)
            elif isinstance(technique, Technique) and is_adapter(technique):
                masks = [one for one in earlier if isinstance(one, Pruning) and not one.removes_channels]
                yield from (messages.adapter_after_pruning(technique.invocation, one.invocation) for one in masks[:1])
                earlier.append(technique)
            elif isinstance(technique, Technique):
                for pruning in (p for p in phase.prunings if p.invocation is technique.invocation):
                    yield from _order(pruning, earlier)
                    yield from _length(pruning, phase)
                    if draft.model.layers is not None:
                        yield from _layers(pruning, draft.model.layers, draft.model_facts.name)
                    earlier.append(pruning)


def _order(pruning: Pruning, earlier: Sequence[Technique | Pruning]) -> Iterator[Diagnostic]:
    """Layers with an adapter can't be pruned, nor channels of layers with masked weights."""
    for other in earlier:
        if isinstance(other, Technique) or (pruning.removes_channels and not other.removes_channels):
            yield messages.pruning_order(pruning.invocation, other.invocation, isinstance(other, Technique))
            return


def _reinit(reinit: Reinit, earlier: Sequence[Technique | Pruning]) -> Iterator[Diagnostic]:
    """A layer re-initialises all of its weights, also masked ones."""
    if reinit.method != "default" or reinit.layers.parameters is None:
        return
    masks = [one for one in earlier if isinstance(one, Pruning) and not one.removes_channels]
    hit = [one for one in masks if (one.parameters or frozenset()) & reinit.layers.parameters]
    yield from (messages.pruned_reinit(reinit.origin, one.invocation) for one in hit[:1])


def _length(pruning: Pruning, phase: Phase) -> Iterator[Diagnostic]:
    over, epochs = pruning.invocation.setting("over"), phase.epochs.value
    if over is None or not isinstance(over.value, Quantity):
        return
    if pruning.removes_channels:
        yield messages.gradual_channels(pruning.invocation, over)
    elif isinstance(epochs, Quantity) and over.value.amount > epochs.amount:
        yield messages.pruning_too_slow(pruning.invocation, over, phase.epochs)


def _layers(pruning: Pruning, layers: Layers, name: str) -> Iterator[Diagnostic]:
    call, chosen = pruning.invocation, pruning.parameters
    on = call.setting("on")
    if on is None or not isinstance(on.origin, Written) or chosen is None:
        return
    parameters = [parameter for parameter in layers.parameters if parameter.name in chosen]
    if pruning.removes_channels and chosen and chosen <= matching(Word("head"), layers):
        yield messages.head_only(call, on, name)
    elif not any(p.name.rpartition(".")[2] == "weight" and len(p.shape) > 1 for p in parameters):
        yield messages.not_prunable(call, on, name, parameters)
