"""Pruning: which layers it takes from."""

from leaven.catalog.selectors import Selection
from leaven.catalog.values import Invocation
from leaven.recipe.recipe import Pruning


def resolve_pruning(call: Invocation) -> Pruning | None:
    """A technique that prunes, with the parameters it may take from; None for any other technique."""
    method = call.value("method")
    if not isinstance(method, Invocation) or method.card.kind != "pruning":
        return None
    on: Selection = call.value("on")
    return Pruning(call, on.parameters, method.card.pruning.shrinks_model)
