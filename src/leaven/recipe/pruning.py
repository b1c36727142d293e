"""Pruning against the model and the rest of the recipe: whether there is anything to take out, and in what order."""

from collections.abc import Sequence

from leaven.binding.scope import Scope
from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Selection, Word, matching
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Quantity, Setting, Written
from leaven.language.diagnostics import Spot
from leaven.language.source import Span
from leaven.recipe.adapters import check_library, is_adapter
from leaven.recipe.models import ModelFacts
from leaven.recipe.recipe import Phase, Pruning, Reinit, Technique


def resolve_pruning(call: Invocation) -> Pruning | None:
    """A technique that prunes, with the parameters it may take from; None for any other technique."""
    how = call.value("how")
    if not isinstance(how, Invocation) or how.card.kind != "pruning":
        return None
    on: Selection = call.value("on")
    return Pruning(call, on.parameters, how.card.pruning.shrinks_model)


def check_prunings(phases: Sequence[Phase], facts: ModelFacts, scope: Scope) -> None:
    """Every pruning of a recipe, each with what came before it."""
    earlier: list[Technique | Pruning] = []
    for phase in phases:
        for technique in phase.techniques:
            if isinstance(technique, Reinit):
                _check_anew(technique, earlier, scope)
            if not isinstance(technique, Technique):
                continue
            if is_adapter(technique):
                _check_covered(technique.invocation, earlier, scope)
                earlier.append(technique)
            pruning = next((one for one in phase.prunings if one.invocation is technique.invocation), None)
            if pruning is not None:
                check_library(pruning.invocation.value("how"), scope)
                _check_order(pruning, earlier, scope)
                _check_gradual(pruning, phase, scope)
                if facts.layers is not None:
                    _check_layers(pruning, facts.layers, facts.name, scope)
                earlier.append(pruning)


def _check_order(pruning: Pruning, earlier: Sequence[Technique | Pruning], scope: Scope) -> None:
    """Nothing can be taken out of layers that have an adapter, nor channels where a mask lies over single weights."""
    for other in earlier:
        if isinstance(other, Technique):
            headline = f"`{other.invocation.card.name}` can't come before pruning"
            reason = "an adapter is trained for the layer that it stands around, as it is"
        elif pruning.removes_channels and not other.removes_channels:
            headline = "single weights can't be pruned before whole channels"
            reason = "single weights that are out stay out by a mask, which has the shape of the whole layer"
        else:
            continue
        scope.report(
            "contradiction",
            headline,
            Spot(_span(pruning.invocation.origin), "this one"),
            Spot(_span(other.invocation.origin), "comes before"),
            notes=[reason],
            fix="change their order",
        )
        return


def _check_covered(adapter: Invocation, earlier: Sequence[Technique | Pruning], scope: Scope) -> None:
    """What an adapter adds to a layer would fill what was taken out of it."""
    for other in earlier:
        if isinstance(other, Pruning) and not other.removes_channels:
            scope.report(
                "contradiction",
                f"`{adapter.card.name}` can't come after single weights were pruned",
                Spot(_span(adapter.origin), "would fill them again"),
                Spot(_span(other.invocation.origin), "takes single weights out"),
                fix="prune whole channels, `structured()`, or train the weights themselves",
            )
            return


def _check_anew(anew: Reinit, earlier: Sequence[Technique | Pruning], scope: Scope) -> None:
    """A layer draws its weights anew as a whole, and knows nothing of a mask."""
    if anew.how != "default" or anew.layers.parameters is None:
        return
    for other in earlier:
        if not isinstance(other, Pruning) or other.removes_channels or other.parameters is None:
            continue
        if other.parameters & anew.layers.parameters:
            scope.report(
                "contradiction",
                "these layers start anew, and some of their weights are pruned",
                Spot(_span(anew.origin), "draws whole layers"),
                Spot(_span(other.invocation.origin), "keeps some weights out"),
                fix='say how to draw them, as in `how="kaiming"`, which leaves out what is out; or choose other layers',
            )
            return


def _check_gradual(pruning: Pruning, phase: Phase, scope: Scope) -> None:
    call = pruning.invocation
    over, epochs = call.setting("over"), phase.epochs.value
    if over is None or not isinstance(over.value, Quantity):
        return
    if pruning.removes_channels:
        scope.report(
            "contradiction",
            "whole channels go at once, not over several epochs",
            Spot(_place(over, call), "can't be done little by little"),
            fix="leave out `over`, or write several phases, each with a smaller `amount`",
        )
    elif isinstance(epochs, Quantity) and over.value.amount > epochs.amount:
        place = phase.epochs.origin
        scope.report(
            "contradiction",
            f"pruning takes {value_text(over.value)}, and the phase has {value_text(epochs)}",
            Spot(_place(over, call), "the amount would not be reached"),
            *([Spot(place.span, "the phase")] if isinstance(place, Written) else []),
            fix="write fewer, or let the phase be longer",
        )


def _check_layers(pruning: Pruning, layers: Layers, name: str, scope: Scope) -> None:
    call, chosen = pruning.invocation, pruning.parameters
    on = call.setting("on")
    if on is None or not isinstance(on.origin, Written) or chosen is None:
        return
    head = matching(Word("head"), layers)
    place = _place(on, call)
    if pruning.removes_channels and chosen and chosen <= head:
        scope.report(
            "empty-selector",
            f"the head of {name} keeps its channels: its outputs are the classes",
            Spot(place, "the head only"),
            fix="leave out `on`, or choose other layers",
        )
    elif not any(p.name in chosen and _is_prunable(p.name, p.shape) for p in layers.parameters):
        kinds = list(dict.fromkeys(p.module_type for p in layers.parameters if p.name in chosen))
        scope.report(
            "empty-selector",
            f"none of these layers of {name} can be pruned",
            Spot(place, f"of type {', '.join(f'`{kind}`' for kind in kinds[:3])}"),
            notes=["convolutions and linear layers are pruned, by their weights; norms follow the layers around them"],
            fix="leave out `on`, or choose other layers (`leaven inspect` lists them)",
        )


def _is_prunable(name: str, shape: tuple[int, ...]) -> bool:
    return name.rpartition(".")[2] == "weight" and len(shape) > 1


def _place(setting: Setting, call: Invocation) -> Span:
    return setting.origin.span if isinstance(setting.origin, Written) else _span(call.origin)


def _span(origin: Origin) -> Span:
    assert isinstance(origin, Written)
    return origin.span
