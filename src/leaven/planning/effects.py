"""The effect of each phase of a plan on each layer, in a word or two: `leaven inspect` prints it beside the layers."""

from collections.abc import Iterator, Mapping, Sequence

from leaven.catalog.layers import LayerParameter, Layers
from leaven.formats.layer_names import is_under, with_outer
from leaven.plan.plan import Plan, Reinitialise, TrainPhase, UnfreezeLater


def effects(plan: Plan, layers: Layers) -> dict[str, tuple[str, ...]]:
    """For every layer with parameters of its own, by path, a word for each phase: `frozen`, `trainable, pruned`."""
    own: dict[str, list[LayerParameter]] = {}
    for parameter in layers.parameters:
        own.setdefault(parameter.module_path, []).append(parameter)
    return {path: tuple(_effects(plan, parameters)) for path, parameters in own.items()}


def _effects(plan: Plan, parameters: Sequence[LayerParameter]) -> Iterator[str]:
    is_adapted = False  # an adapter stays in later phases
    for phase in plan.phases:
        words = [_freezing(phase, parameters)] if phase.trains else []
        words += ["adapted"] if is_adapted else []
        for one in phase.preparations:
            if isinstance(one, Reinitialise):
                words += ["re-initialised"] if any(is_under(p.name, one.paths) for p in parameters) else []
            elif any(len(p.shape) > 1 and is_under(p.name, one.layers) for p in parameters):
                words.append("adapted" if one.is_adapter else "pruned")
        is_adapted = "adapted" in words
        yield ", ".join(dict.fromkeys(words)) or "unchanged"


def _freezing(phase: TrainPhase, parameters: Sequence[LayerParameter]) -> str:
    waiting = [one for one in phase.unfreeze_later if any(is_under(p.name, one.paths) for p in parameters)]
    if waiting:
        return "frozen" if all(_is_too_late(one, phase) for one in waiting) else "unfrozen later"
    if phase.freeze is None:
        return "trainable"
    are_frozen = {is_under(p.name, phase.freeze.paths) is not phase.freeze.is_all_but for p in parameters}
    return "partly frozen" if len(are_frozen) > 1 else "frozen" if are_frozen == {True} else "trainable"


def _is_too_late(later: UnfreezeLater, phase: TrainPhase) -> bool:
    """Whether the phase is over before; not where the command line decides."""
    at, epochs = later.at.value, phase.epochs.value
    return isinstance(at, int | float) and isinstance(epochs, int | float) and at >= epochs


def summarised(effects_of_layers: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The words for every module: those of all layers under it where they agree, else an ellipsis."""
    under: dict[str, list[tuple[str, ...]]] = {}
    for layer, words in effects_of_layers.items():
        for path in with_outer(layer):
            under.setdefault(path, []).append(words)
    return {
        path: tuple(words[0] if len(set(words)) == 1 else "…" for words in zip(*found, strict=True))
        for path, found in under.items()
    }
