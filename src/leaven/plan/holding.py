"""What keeps still in a phase, after every statement that has a say in it, in their order."""

from collections.abc import Sequence
from dataclasses import dataclass

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import matching
from leaven.catalog.values import Origin
from leaven.plan.paths import paths_of
from leaven.plan.plan import Hold, Wake
from leaven.recipe.adapters import added_weights
from leaven.recipe.recipe import AnyTechnique, Freeze, Phase, Technique, Unfreeze
from leaven.recipe.stillness import as_freeze, in_effect, is_adapter

Joining = list[tuple[frozenset[str], Unfreeze]]


@dataclass(frozen=True, slots=True)
class Stillness:
    """What keeps still for the whole phase, what does so at first, and the parameters that never move."""

    hold: Hold | None
    wakes: tuple[Wake, ...]
    parameters: frozenset[str]


def stillness_of(phase: Phase, lasting: Sequence[Technique], layers: Layers) -> Stillness:
    """What `freeze`, `unfreeze` and adapters come to; `lasting` are the adapters that earlier phases left."""
    techniques = in_effect(lasting, phase.techniques)
    frozen, around, joining = _gone_through(techniques, layers)
    freezes = [freeze for one in techniques if not is_adapter(one) and (freeze := as_freeze(one)) is not None]
    norms = freezes[-1].norms if freezes else "still"
    wakes = tuple(
        Wake(paths_of(names, layers), unfreeze.at, norms, unfreeze.origin)
        for names, unfreeze in joining
        if unfreeze.at is not None
    )
    later = frozenset().union(*(names for names, _ in joining))
    still, lively = (frozen | around) - later, around - frozen - later
    return Stillness(_hold(still, lively, norms, techniques, layers), wakes, still)


def _gone_through(techniques: Sequence[AnyTechnique], layers: Layers) -> tuple[frozenset[str], frozenset[str], Joining]:
    """What is frozen, what is still because of an adapter, and what of both joins later."""
    frozen: frozenset[str] = frozenset()
    around: frozenset[str] = frozenset()
    joining: Joining = []
    for technique in techniques:
        change = technique if isinstance(technique, Unfreeze) else as_freeze(technique)
        if change is None:
            continue
        chosen = matching(change.layers, layers)
        if isinstance(change, Unfreeze) and change.at is not None:
            joining.append((chosen & (frozen | around), change))
            continue
        if isinstance(change, Unfreeze):
            frozen, around = frozen - chosen, around - chosen
        elif is_adapter(technique):
            around |= chosen
        else:
            frozen |= chosen
        joining = [(names - chosen, unfreeze) for names, unfreeze in joining]
    return frozen, around, [(names, unfreeze) for names, unfreeze in joining if names]


def _hold(
    still: frozenset[str], lively: frozenset[str], norms: str, techniques: Sequence[AnyTechnique], layers: Layers
) -> Hold | None:
    if not still:
        return None
    moving = frozenset(p.name for p in layers.parameters) - still
    held, free = paths_of(still, layers), paths_of(moving, layers)
    is_all_but = len(free) < len(held)
    adapters = [one.invocation for one in techniques if isinstance(one, Technique) and is_adapter(one)]
    added = sum(added_weights(call, layers) for call in adapters)
    return Hold(
        paths=free if is_all_but else held,
        is_all_but=is_all_but,
        norms=norms,
        dropout="on" if lively == still else paths_of(lively, layers) if lively else "off",
        moving=sum(p.count for p in layers.parameters if p.name in moving) + added,
        total=sum(p.count for p in layers.parameters) + added,
        because=tuple(filter(None, map(_said, techniques))),
    )


def _said(technique: AnyTechnique) -> Origin | None:
    """Where a statement that holds for the whole phase stands."""
    if isinstance(technique, Unfreeze):
        return technique.origin if technique.at is None else None
    freeze: Freeze | None = as_freeze(technique)
    return freeze.origin if freeze is not None else None
