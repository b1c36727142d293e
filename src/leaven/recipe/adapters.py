"""Adapters: which layers get one, how many weights it brings, and what speaks against it."""

from collections.abc import Sequence
from importlib.util import find_spec
from math import prod

from leaven.binding.scope import Scope
from leaven.catalog.layers import LayerParameter, Layers
from leaven.catalog.selectors import Selection, Word, matching
from leaven.catalog.values import Invocation, Origin, Setting, Written
from leaven.language.diagnostics import Spot
from leaven.language.source import Span
from leaven.recipe.recipe import Adapter, AnyTechnique, Model, Technique

MOST_NAMED = 3


def is_adapter(technique: AnyTechnique) -> bool:
    """Whether a technique adds parameters of its own to layers, and stays in later phases."""
    return isinstance(technique, Technique) and technique.invocation.card.technique.is_adapter


def resolve_adapter(call: Invocation, layers: Layers | None) -> Adapter | None:
    """An adapter with the weights that it adapts; None where these are not known."""
    on: Selection | None = call.value("on")
    if layers is None or (on is not None and on.parameters is None):
        return None
    weights = _adapted_weights(call, on.parameters if on is not None else None, layers)
    return Adapter(call, weights, _added_parameters(call, weights))


def _adapted_weights(call: Invocation, chosen: frozenset[str] | None, layers: Layers) -> tuple[LayerParameter, ...]:
    """The weights that get an adapter. Without `on`, those of linear layers in a model with attention, otherwise of all
    layers that can be adapted; except for the head, and for layers that are smaller than the adapter."""
    head = matching(Word("head"), layers)
    can_be = [weight for weight in _adaptable(layers) if weight.name not in head]
    if chosen is not None:
        return tuple(weight for weight in can_be if weight.name in chosen)
    has_attention = any("Attention" in module.type for module in layers.modules)
    kinds = ("Linear",) if has_attention else ("Linear", "Conv2d")
    rank = call.value("rank")
    return tuple(
        weight
        for weight in can_be
        if weight.module_type in kinds and (not isinstance(rank, int) or rank <= _largest_rank(weight))
    )


def _added_parameters(call: Invocation, weights: Sequence[LayerParameter]) -> int:
    """How many parameters an adapter adds."""
    rank = call.value("rank", 0)
    rank = rank if isinstance(rank, int) else 0
    each = {"lora": 0, "dora": 1, "ia3": 1}[call.card.name]  # for every output
    return sum(rank * (weight.shape[0] + prod(weight.shape[1:])) + each * weight.shape[0] for weight in weights)


def _adaptable(layers: Layers) -> list[LayerParameter]:
    plain = {module.path for module in layers.modules if module.is_plain}
    return [p for p in layers.parameters if p.module_path in plain and p.name.rpartition(".")[2] == "weight"]


def _largest_rank(weight: LayerParameter) -> int:
    return min(weight.shape[0], prod(weight.shape[1:]))


# -- checks


def check_library(call: Invocation, scope: Scope) -> None:
    """Report a technique that stands on a library which is not installed."""
    requires = call.card.requires
    if requires is not None and find_spec(requires.library) is None:
        library, extra = requires
        scope.report(
            "missing-library",
            f"`{call.card.name}` needs the library {library}, which is not installed",
            Spot(_span(call.origin), f"made by {library}"),
            fix=f'`pip install "leaven[{extra}]"` installs it',
        )


def check_adapter(
    adapter: Adapter | None,
    call: Invocation,
    earlier: Sequence[Adapter],
    layers: Layers,
    model: Model,
    name: str,
    scope: Scope,
) -> None:
    """An adapter against the layers that it is put on, and against those that came before it."""
    aside = call.setting("merge")
    if aside is not None and aside.value is False and not model.pretrained and model.weights is None:
        scope.report(
            "contradiction",
            "the adapter is kept apart from the model, and nobody else has this model",
            Spot(_place(aside, call), "keeps the adapter alone"),
            notes=["a model without `pretrained` or `weights` starts from chance, and can't be built again elsewhere"],
            fix="leave out `merge=false`: then the whole model is saved",
        )
    if adapter is None:
        return
    if not adapter.weights:
        _report_none(call, call.setting("on"), layers, name, scope)
        return
    _check_twice(adapter, earlier, scope)
    _check_rank(call, adapter.weights, scope)


def _report_none(call: Invocation, on: Setting | None, layers: Layers, name: str, scope: Scope) -> None:
    place = _place(on, call) if on is not None else _span(call.origin)
    note = "an adapter is added to linear layers and to convolutions without groups, gaps or padding of their own kind"
    if on is None or on.value is None:
        scope.report(
            "empty-selector",
            f"{name} has no layers that `{call.card.name}` could adapt",
            Spot(place, "nothing to adapt"),
            notes=[note],
            fix=f"remove `{call.card.name}`: the model's own layers are trained then",
        )
        return
    chosen = on.value.parameters
    if chosen <= matching(Word("head"), layers):
        scope.report(
            "empty-selector",
            f"`{call.card.name}` trains the head whole, and adapts other layers",
            Spot(place, "the head only"),
            fix="leave out `on`, or choose other layers",
        )
        return
    types = dict.fromkeys(p.module_type for p in layers.parameters if p.name in chosen)
    named = [f"`{kind}`{' with groups or gaps' if kind == 'Conv2d' else ''}" for kind in types]
    told = ", ".join(named[:MOST_NAMED]) + (", …" if len(named) > MOST_NAMED else "")
    scope.report(
        "empty-selector",
        f"`{call.card.name}` can't adapt any of these layers of {name}",
        Spot(place, f"of type {told}"),
        notes=[note],
        fix="leave out `on`, or choose other layers (`leaven inspect` lists them)",
    )


def _check_twice(adapter: Adapter, earlier: Sequence[Adapter], scope: Scope) -> None:
    for other in earlier:
        both = [weight for weight in other.weights if weight in adapter.weights]
        if both:
            scope.report(
                "contradiction",
                f"`{both[0].module_path}` would get two adapters",
                Spot(_span(adapter.invocation.origin), "this one"),
                Spot(_span(other.invocation.origin), "and this one, which stays"),
                fix="choose layers for each with `on=`, or remove one of them",
            )


def _check_rank(call: Invocation, weights: Sequence[LayerParameter], scope: Scope) -> None:
    rank = call.setting("rank")
    if rank is None or not isinstance(rank.value, int) or not isinstance(rank.origin, Written):
        return
    smallest = min(weights, key=_largest_rank)
    if rank.value > _largest_rank(smallest):
        scope.warn(
            "wrong-value",
            f"`{smallest.module_path}` has no room for rank {rank.value}",
            Spot(rank.origin.span, f"more than {_largest_rank(smallest)} adds nothing there"),
            fix=f"write `rank={_largest_rank(smallest)}` or less, or leave such layers out of `on`",
        )


def _place(setting: Setting, call: Invocation) -> Span:
    return setting.origin.span if isinstance(setting.origin, Written) else _span(call.origin)


def _span(origin: Origin) -> Span:
    assert isinstance(origin, Written)
    return origin.span
