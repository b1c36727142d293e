"""The techniques of a phase as a program uses them: layers as paths, teachers as models to build."""

from collections.abc import Iterator
from dataclasses import replace

from leaven.catalog.layers import Layers
from leaven.plan.building import build_model
from leaven.plan.paths import paths_of
from leaven.plan.plan import BuildModel, Teacher, UseTechnique
from leaven.recipe.modelling import as_model
from leaven.recipe.recipe import Invocation, KeepHead, Phase, Recipe, Selector, Setting
from leaven.recipe.selectors import matching


def use_of(call: Invocation, phase: Phase, recipe: Recipe, layers: Layers) -> UseTechnique:
    """A technique of a phase."""
    models = {s.name: _model(s.value, phase, recipe) for s in call.settings if _is_model(s, call)}
    settings = tuple(_with_paths(s, layers) for s in call.settings if s.name not in models)
    facts = call.card.facts
    return UseTechnique(
        replace(call, settings=settings), tuple(facts["hooks"]), tuple(facts.get("wants", ())), tuple(models.items())
    )


def remembered_by(use: UseTechnique) -> Iterator[str]:
    """The phases at whose beginning the model must be kept for a technique."""
    return (model.phase for _, model in use.models if isinstance(model, Teacher))


def _is_model(setting: Setting, call: Invocation) -> bool:
    if not isinstance(setting.value, Invocation):
        return False
    parameter = call.card.parameter(setting.name)
    return setting.value.card.kind == "model" or (parameter is not None and "model" in parameter.types)


def _model(call: Invocation, phase: Phase, recipe: Recipe) -> BuildModel | Teacher:
    if call.card.facts.get("former_self"):
        return Teacher(call.value("phase") or phase.name)
    model = replace(as_model(call), head=KeepHead())
    return build_model(model, Layers(), recipe)


def _with_paths(setting: Setting, layers: Layers) -> Setting:
    if isinstance(setting.value, Selector):
        return replace(setting, value=paths_of(matching(setting.value, layers), layers))
    return setting
