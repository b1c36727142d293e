"""Freezing, unfreezing and groups of layers, as paths."""

from leaven.catalog.layers import Layers
from leaven.plan.plan import FreezeLayers, ParameterGroup, UnfreezeLater
from leaven.planning.paths import paths_of
from leaven.planning.translate import argument, because
from leaven.recipe.recipe import Freezing, Phase


def freeze_layers(phase: Phase, freezing: Freezing, layers: Layers, *, is_smaller: bool) -> FreezeLayers | None:
    """The layers frozen for the whole phase, in the fewest paths; `is_smaller` where channels were pruned before."""
    if not freezing.frozen:
        return None
    trainable = frozenset(parameter.name for parameter in layers.parameters) - freezing.frozen
    frozen_paths, trainable_paths = paths_of(freezing.frozen, layers), paths_of(trainable, layers)
    is_all_but = len(trainable_paths) < len(frozen_paths)
    return FreezeLayers(
        paths=trainable_paths if is_all_but else frozen_paths,
        is_all_but=is_all_but,
        norms=_part(freezing.norms_on, freezing.frozen, layers, "train", "frozen"),
        dropout=_part(freezing.dropout_on, freezing.frozen, layers, "on", "off"),
        has_adapters=bool(phase.adapters),
        counts=None if is_smaller else _counts(phase, trainable, layers),
        because=because(*freezing.origins),
        has_first_layer=not layers.is_forward_order or layers.parameters[0].name in freezing.frozen,
    )


def _counts(phase: Phase, trainable: frozenset[str], layers: Layers) -> tuple[int, int]:
    added = sum(adapter.added for adapter in phase.adapters)
    own = sum(parameter.count for parameter in layers.parameters if parameter.name in trainable)
    return own + added, sum(parameter.count for parameter in layers.parameters) + added


def _part(
    chosen: frozenset[str], whole: frozenset[str], layers: Layers, all_of_it: str, none: str
) -> str | tuple[str, ...]:
    """A part of some parameters: a word where it is all or none of them, else its paths."""
    return all_of_it if chosen >= whole else paths_of(chosen & whole, layers) or none


def unfreeze_later(freezing: Freezing, layers: Layers) -> tuple[UnfreezeLater, ...]:
    """The layers that are frozen only at first."""
    waiting = freezing.at_first - freezing.frozen
    norms = _part(freezing.norms_on, waiting, layers, "train", "frozen")
    return tuple(
        UnfreezeLater(paths_of(one.parameters, layers), argument(one.at), norms, because(one.origin))
        for one in freezing.later
    )


def parameter_groups(phase: Phase, layers: Layers) -> tuple[ParameterGroup, ...]:
    """Each parameter belongs to the last group that names it."""
    taken: frozenset[str] = frozenset()
    groups = []
    for group in reversed(phase.optimizer.groups):
        chosen = (group.layers.parameters or frozenset()) - taken
        taken |= chosen
        if chosen:
            settings = tuple(argument(setting) for setting in group.settings)
            groups.append(ParameterGroup(paths_of(chosen, layers), settings, because(group.origin)))
    return tuple(reversed(groups))
