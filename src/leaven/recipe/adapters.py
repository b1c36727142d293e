"""Adapters: which layers get one, and how many parameters it adds."""

from math import prod

from leaven.catalog.layers import LayerParameter, Layers
from leaven.catalog.selectors import Selection, Word, matching
from leaven.catalog.values import Invocation
from leaven.recipe.recipe import Adapter, AnyTechnique, Technique


def is_adapter(technique: AnyTechnique) -> bool:
    """Whether a technique adds parameters of its own to layers, and stays in later phases."""
    return isinstance(technique, Technique) and technique.invocation.card.technique.is_adapter


def resolve_adapter(call: Invocation, layers: Layers | None) -> Adapter:
    """An adapter with the weights that it adapts, where these are known."""
    on: Selection | None = call.value("on")
    if layers is None or (on is not None and on.parameters is None):
        return Adapter(call, None, 0)
    weights = _adapted_weights(call, on.parameters if on is not None else None, layers)
    rank, per_output = call.value("rank", 0), call.card.technique.adds_per_output
    rank = rank if isinstance(rank, int) else 0
    added = sum(rank * (each.shape[0] + prod(each.shape[1:])) + per_output * each.shape[0] for each in weights)
    return Adapter(call, weights, added)


def _adapted_weights(call: Invocation, chosen: frozenset[str] | None, layers: Layers) -> tuple[LayerParameter, ...]:
    """The weights that get an adapter. Without `on`, those of linear layers in a model with attention, otherwise of all
    layers that can be adapted; except for the head, and for layers that are smaller than the adapter."""
    head = matching(Word("head"), layers)
    plain = {module.path for module in layers.modules if module.is_plain}
    weights = [p for p in layers.parameters if p.module_path in plain and p.name.rpartition(".")[2] == "weight"]
    can_be = [weight for weight in weights if weight.name not in head]
    if chosen is not None:
        return tuple(weight for weight in can_be if weight.name in chosen)
    has_attention = any("Attention" in module.type for module in layers.modules)
    kinds = ("Linear",) if has_attention else ("Linear", "Conv2d")
    rank = call.value("rank")
    fitting = [weight for weight in can_be if not isinstance(rank, int) or rank <= largest_rank(weight)]
    return tuple(weight for weight in fitting if weight.module_type in kinds)


def largest_rank(weight: LayerParameter) -> int:
    """The largest rank that a low-rank addition to a weight can have."""
    return min(weight.shape[0], prod(weight.shape[1:]))
