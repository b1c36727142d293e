"""The techniques of a phase as a program uses them: layers as paths, teachers as models to build."""

from collections.abc import Iterator
from dataclasses import replace

from leaven.catalog.layers import Layers, is_below
from leaven.catalog.selectors import Selector, Word, matching
from leaven.catalog.values import Invocation, Setting
from leaven.plan.building import build_model
from leaven.plan.paths import paths_of
from leaven.plan.plan import BuildModel, FormerSelf, UseTechnique
from leaven.recipe.adapters import adapted_weights
from leaven.recipe.modelling import as_model, is_model
from leaven.recipe.recipe import KeepHead, Phase, Recipe, Technique
from leaven.recipe.stillness import is_adapter


def use_of(call: Invocation, phase: Phase, recipe: Recipe, layers: Layers, still: frozenset[str]) -> UseTechnique:
    """A technique of a phase, in which some layers never move."""
    models = {s.name: _model(s.value, phase, recipe) for s in call.settings if is_model(s, call)}
    settings = tuple(_with_paths(s, call, layers) for s in call.settings if s.name not in models)
    facts = call.card.facts
    wants = tuple(facts.get("wants", ()))
    return UseTechnique(
        replace(call, settings=settings),
        _hooks(call),
        wants,
        tuple(models.items()),
        _stages(layers, still) if "stages" in wants else (),
    )


def _hooks(call: Invocation) -> tuple[str, ...]:
    """The hooks that a technique needs; some only where a certain argument is given, or has a certain value."""
    only_with: dict[str, str | dict[str, list[str]]] = call.card.facts.get("only_with", {})
    return tuple(hook for hook in call.card.facts["hooks"] if hook not in only_with or _has(call, only_with[hook]))


def _has(call: Invocation, wanted: str | dict[str, list[str]]) -> bool:
    if isinstance(wanted, str):
        return call.value(wanted) is not None
    # what the command line of the program decides is not known here
    return all(call[name].syntax is not None or call.value(name) in values for name, values in wanted.items())


def remembered_by(use: UseTechnique) -> Iterator[str]:
    """The phases at whose beginning the model must be kept for a technique."""
    return (model.phase for _, model in use.models if isinstance(model, FormerSelf))


def _model(call: Invocation, phase: Phase, recipe: Recipe) -> BuildModel | FormerSelf:
    if call.card.facts.get("former_self"):
        return FormerSelf(call.value("phase") or phase.name)
    model = replace(as_model(call), head=KeepHead())
    return build_model(model, Layers(), recipe)


def _with_paths(setting: Setting, call: Invocation, layers: Layers) -> Setting:
    if setting.name == "on" and is_adapter(Technique(call)):
        adapted = {weight.module_path for weight in adapted_weights(call, layers)}
        chosen = [parameter.name for parameter in layers.parameters if parameter.module_path in adapted]
        return replace(setting, value=paths_of(chosen, layers) or None)
    if setting.name == "on" and setting.value is None and "by_default_on" in call.card.facts:
        setting = replace(setting, value=Word(call.card.facts["by_default_on"]))
    if isinstance(setting.value, Selector):
        return replace(setting, value=paths_of(matching(setting.value, layers), layers))
    return setting


def _stages(layers: Layers, still: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """The layers that move, from the stem to the head; what belongs to no stage goes with the one before it."""
    roots = (layers.stem, *layers.stages, layers.head)
    found: list[list[str]] = [[] for _ in roots]
    at = 0
    for name in (parameter.name for parameter in layers.parameters):
        at = next((number for number, paths in enumerate(roots) if is_below(name, paths)), at)
        if name not in still:
            found[at].append(name)
    return tuple(paths_of(names, layers) for names in found if names)
