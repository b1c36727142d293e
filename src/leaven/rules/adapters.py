"""Adapters: the layers that they are added to, and other adapters there."""

from collections.abc import Iterator, Sequence

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Word, matching
from leaven.catalog.values import Invocation, Written
from leaven.language.diagnostics import Diagnostic
from leaven.messages import freezing as messages
from leaven.recipe.adapters import largest_rank
from leaven.recipe.reader import Draft
from leaven.recipe.recipe import Adapter


def check(draft: Draft) -> Iterator[Diagnostic]:
    earlier: list[Adapter] = []
    for phase in draft.phases:
        for adapter in phase.adapters[len(earlier) :]:  # those of earlier phases come first
            yield from _adapter(adapter, earlier, draft)
            earlier.append(adapter)


def _adapter(adapter: Adapter, earlier: Sequence[Adapter], draft: Draft) -> Iterator[Diagnostic]:
    call, layers = adapter.invocation, draft.model.layers
    merge = call.setting("merge")
    if merge is not None and merge.value is False and not draft.model.has_weights:
        yield messages.adapter_without_base(call, merge)
    if layers is None or adapter.weights is None:
        return
    if not adapter.weights:
        yield _nothing_to_adapt(call, layers, draft.model_facts.name)
        return
    for other in earlier:
        if both := [weight for weight in other.weights or () if weight in adapter.weights]:
            yield messages.adapted_twice(call, other.invocation, both[0].module_path)
    rank = call.setting("rank")
    if rank is not None and isinstance(rank.value, int) and isinstance(rank.origin, Written):
        smallest = min(adapter.weights, key=largest_rank)
        if rank.value > largest_rank(smallest):
            yield messages.rank_too_large(rank, call, smallest.module_path, largest_rank(smallest))


def _nothing_to_adapt(call: Invocation, layers: Layers, name: str) -> Diagnostic:
    on = call.setting("on")
    if on is None or on.value is None:
        return messages.nothing_to_adapt(call, name)
    chosen = on.value.parameters
    if chosen <= matching(Word("head"), layers):
        return messages.head_only(call, on, name)
    types = dict.fromkeys(parameter.module_type for parameter in layers.parameters if parameter.name in chosen)
    return messages.not_adaptable(call, on, name, list(types))
