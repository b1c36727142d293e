"""Which layers are measured during training: those that the recipe selects, or a few from all over the model."""

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Selection, Word, modules_matching
from leaven.plan.plan import WatchLayers
from leaven.planning.paths import paths_of
from leaven.planning.translate import argument, because
from leaven.recipe.recipe import Recipe

ALL = "*"  # every layer with parameters of its own
_FEW = 3  # stages that are measured by default


def watch_layers(recipe: Recipe) -> WatchLayers | None:
    """The layers to measure; None where there are none, or where they are known only when the program runs."""
    watch, layers = recipe.watch, recipe.model.layers
    if watch.every.value is None or layers is None:
        return None
    chosen = watch.layers.value
    paths = _selected(chosen, layers) if isinstance(chosen, Selection) else _some(layers)
    return WatchLayers(paths, argument(watch.every), because(watch.statement.origin)) if paths else None


def _selected(chosen: Selection, layers: Layers) -> tuple[str, ...]:
    """The modules that a selector names; where it names none, the owners of its parameters."""
    if chosen.selector == Word("all"):
        return (ALL,)
    owners = {layer.name: layer.module_path for layer in layers.parameters}
    named = modules_matching(chosen.selector, layers)
    return named or tuple(dict.fromkeys(owners.get(path, path) for path in paths_of(chosen.parameters or (), layers)))


def _some(layers: Layers) -> tuple[str, ...]:
    """The first, the middle and the last stage, and the head."""
    stages = [paths[-1] for paths in layers.stages if paths] or _outermost(layers)
    rest = [path for path in stages if path not in layers.head]
    last = len(rest) - 1
    few = [rest[at] for at in sorted({0, last // 2, last})] if len(rest) > _FEW else rest
    return (*few, *layers.head[-1:])


def _outermost(layers: Layers) -> list[str]:
    """The modules of a model without stages that have parameters, and are in no other."""
    return list(dict.fromkeys(layer.module_path.partition(".")[0] for layer in layers.parameters if layer.module_path))
