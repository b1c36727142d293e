"""The techniques of a phase as a program uses them: layers as paths, teachers as models to build."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Selection
from leaven.catalog.values import Default, Invocation, Setting
from leaven.plan.plan import BuildModel, EarlierModel, UseTechnique
from leaven.plan.values import Argument, Calculation, Variable
from leaven.planning.building import build_model
from leaven.planning.paths import paths_of
from leaven.planning.schedules import is_percentage, rounded, share_of
from leaven.planning.translate import argument, because, call_of
from leaven.recipe.freezing import trainable_stages
from leaven.recipe.model_statement import as_model, is_model
from leaven.recipe.recipe import KeepHead, Phase, Recipe
from leaven.terminal.visible import visible


def use_of(invocation: Invocation, phase: Phase, recipe: Recipe, layers: Layers) -> UseTechnique:
    models = {s.name: _model(s.value, phase, recipe) for s in invocation.settings if is_model(s, invocation)}
    changed = _changed_layers(invocation, phase, layers)
    settings = tuple(_with_paths(s, changed, layers) for s in invocation.settings if s.name not in models)
    resolved = replace(invocation, settings=settings)
    card = invocation.card
    units = {parameter.name: set(parameter.units) for parameter in card.parameters}
    lengths = [_in_epochs(setting) for setting in settings if units.get(setting.name) == {"epochs", "%"}]
    hooks, wants = _hooks(invocation), card.technique.wants
    frozen = phase.freezing.frozen if phase.freezing is not None else frozenset()
    stages = trainable_stages(layers, frozen) if "stages" in wants else ()
    return UseTechnique(
        name=card.bare_name.lower(),
        call=call_of(resolved, by_name=True, more=[*lengths, *_usual(resolved)]),
        hooks=hooks,
        wants=wants,
        models=tuple(models.items()),
        layers=changed or (),
        stages=tuple(paths_of(stage, layers) for stage in stages),
        is_adapter=card.technique.is_adapter,
        is_merged=card.technique.is_adapter and invocation.value("merge") is not False,
        changes=card.technique.changes,
        compares_features=card.technique.compares_features,
        remarks=tuple(_remarks(resolved, hooks)),
    )


def _remarks(invocation: Invocation, hooks: Collection[str]) -> Iterator[tuple[str, str]]:
    """The comments that programs have on its hooks, and on its arguments."""
    yield from ((hook, said) for hook, said in invocation.card.technique.remarks.items() if hook in hooks)
    for parameter in invocation.card.parameters:
        value = invocation.value(parameter.name)
        said = value.card.remark if isinstance(value, Invocation) else parameter.remark
        if said:
            yield parameter.target or parameter.name, said


def _usual(invocation: Invocation) -> Iterator[Argument]:
    """The defaults that depend on another argument, which programs show."""
    for setting in invocation.settings:
        parameter = invocation.card.parameter(setting.name)
        if setting.value is None and parameter is not None and parameter.default_by:
            by = invocation[parameter.default_by]
            usual = dict(parameter.defaults).get(str(by.value)) if by.syntax is None else None
            if usual is not None:
                yield Argument(setting.name, usual, because=because(Default(f"usual for {by.value}")))


def _in_epochs(setting: Setting) -> Argument:
    """A length of time as a number of epochs, whatever its unit."""
    given = argument(setting)
    if is_percentage(setting):
        return replace(given, value=rounded(Calculation("*", share_of(setting), Variable("phase.total_epochs"))))
    return given


def _hooks(call: Invocation) -> tuple[str, ...]:
    """The hooks that a technique needs; some only where a certain argument is given, or has a certain value."""
    needed = list(call.card.technique.hooks)
    for hook, condition in call.card.technique.hooks_only_if.items():
        setting = call[condition.parameter]
        # what the command line of the program decides is not known here
        if hook in needed and setting.syntax is None and not condition.is_met_by(setting.value):
            needed.remove(hook)
    return tuple(needed)


def _model(call: Invocation, phase: Phase, recipe: Recipe) -> BuildModel | EarlierModel:
    if call.card.model.loads == "earlier_phase":
        return EarlierModel(visible(call.value("phase") or phase.name))
    return build_model(replace(as_model(call), head=KeepHead()), recipe)


def _changed_layers(call: Invocation, phase: Phase, layers: Layers) -> tuple[str, ...] | None:
    """The layers that an adapter or a pruning changes; None for any other technique."""
    for adapter in phase.adapters:
        if adapter.invocation is call:
            modules = {weight.module_path for weight in adapter.weights or ()}
            return paths_of([p.name for p in layers.parameters if p.module_path in modules], layers)
    for pruning in phase.prunings:
        if pruning.invocation is call:
            return paths_of(pruning.parameters or (), layers)
    return None


def _with_paths(setting: Setting, changed: tuple[str, ...] | None, layers: Layers) -> Setting:
    if setting.name == "on" and changed is not None:
        return replace(setting, value=changed or None)
    if isinstance(setting.value, Selection):
        return replace(setting, value=paths_of(setting.value.parameters or (), layers))
    return setting
