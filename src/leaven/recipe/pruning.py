"""Pruning against the model and the rest of the recipe: whether there is anything to take out, and in what order."""

from collections.abc import Sequence

from leaven.binding.scope import Scope
from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Word, is_resolved, matching
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Quantity, Setting, Written
from leaven.language.diagnostics import Spot
from leaven.language.source import Span
from leaven.recipe.adapters import check_library
from leaven.recipe.models import ModelFacts
from leaven.recipe.recipe import Phase, Reinit, Technique
from leaven.recipe.stillness import is_adapter


def check_prunings(phases: Sequence[Phase], facts: ModelFacts, scope: Scope) -> None:
    """Every pruning of a recipe, each with what came before it."""
    earlier: list[Technique] = []
    for phase in phases:
        for technique in phase.techniques:
            if isinstance(technique, Reinit) and facts.layers is not None:
                _check_anew(technique, earlier, facts.layers, scope)
            if not isinstance(technique, Technique):
                continue
            call = technique.invocation
            if is_adapter(technique):
                _check_covered(call, earlier, scope)
            how = call.value("how")
            if isinstance(how, Invocation) and how.card.kind == "pruning":
                check_library(how, scope)
                _check_order(call, how, earlier, scope)
                _check_gradual(call, how, phase, scope)
                if facts.layers is not None:
                    _check_layers(call, how, facts.layers, facts.name, scope)
            earlier.append(technique)


def _is_smaller(how: Invocation) -> bool:
    """Whether whole channels go."""
    return bool(how.card.facts.get("smaller"))


def _check_order(call: Invocation, how: Invocation, earlier: Sequence[Technique], scope: Scope) -> None:
    """Nothing can be taken out of layers that carry an adapter, nor channels where a mask lies over single weights."""
    for other in earlier:
        if is_adapter(other):
            headline = f"`{other.invocation.card.name}` can't come before pruning"
            reason = "an adapter is trained for the layer that it stands around, as it is"
        elif _is_smaller(how) and _is_masking(other.invocation):
            headline = "single weights can't be pruned before whole channels"
            reason = "single weights that are out stay out by a mask, which has the shape of the whole layer"
        else:
            continue
        scope.report(
            "contradiction",
            headline,
            Spot(_span(call.origin), "this one"),
            Spot(_span(other.invocation.origin), "comes before"),
            notes=[reason],
            fix="change their order",
        )
        return


def _check_covered(adapter: Invocation, earlier: Sequence[Technique], scope: Scope) -> None:
    """What an adapter adds to a layer would fill what was taken out of it."""
    for other in earlier:
        if _is_masking(other.invocation):
            scope.report(
                "contradiction",
                f"`{adapter.card.name}` can't come after single weights were pruned",
                Spot(_span(adapter.origin), "would fill them again"),
                Spot(_span(other.invocation.origin), "takes single weights out"),
                fix="prune whole channels, `structured()`, or train the weights themselves",
            )
            return


def _is_masking(call: Invocation) -> bool:
    how = call.value("how")
    return isinstance(how, Invocation) and how.card.kind == "pruning" and not _is_smaller(how)


def _check_anew(anew: Reinit, earlier: Sequence[Technique], layers: Layers, scope: Scope) -> None:
    """A layer draws its weights anew as a whole, and knows nothing of a mask."""
    if anew.how != "default" or not is_resolved(anew.layers):
        return
    for call in (other.invocation for other in earlier if _is_masking(other.invocation)):
        chosen = call.value("on") or Word("backbone")
        if is_resolved(chosen) and matching(chosen, layers) & matching(anew.layers, layers):
            scope.report(
                "contradiction",
                "these layers start anew, and some of their weights are pruned",
                Spot(_span(anew.origin), "draws whole layers"),
                Spot(_span(call.origin), "keeps some weights out"),
                fix='say how to draw them, as in `how="kaiming"`, which leaves out what is out; or choose other layers',
            )
            return


def _check_gradual(call: Invocation, how: Invocation, phase: Phase, scope: Scope) -> None:
    over, epochs = call.setting("over"), phase.epochs.value
    if over is None or not isinstance(over.value, Quantity):
        return
    if _is_smaller(how):
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


def _check_layers(call: Invocation, how: Invocation, layers: Layers, name: str, scope: Scope) -> None:
    on = call.setting("on")
    if on is None or on.value is None or not is_resolved(on.value):
        return
    chosen = matching(on.value, layers)
    head = matching(Word("head"), layers)
    place = _place(on, call)
    if _is_smaller(how) and chosen and chosen <= head:
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
