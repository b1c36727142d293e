"""From a checked recipe to a plan. Pure: the same recipe gives the same plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leaven.binding.scores import metric_label
from leaven.catalog.layers import Layers
from leaven.catalog.selectors import Selection
from leaven.catalog.values import Invocation, Origin, Score, Written
from leaven.plan.building import build_model
from leaven.plan.layers import freeze_layers, parameter_groups, unfreeze_later
from leaven.plan.paths import paths_of
from leaven.plan.plan import Measure, Plan, ReadData, Reinitialise, TrainPhase, UseTechnique
from leaven.plan.techniques import remembered_by, use_of
from leaven.recipe.fitting import is_random
from leaven.recipe.freezing import trained_words, unfreezes_gradually
from leaven.recipe.recipe import AnyTechnique, Freeze, Phase, Recipe, Reinit, Technique, Unfreeze


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A part of the language that this version can check but not yet run."""

    what: str
    origin: Origin


def make_plan(recipe: Recipe, summary: str = "") -> Plan | tuple[NotBuilt, ...]:
    """The plan of a recipe; or what of it can't be run yet."""
    missing = (*_missing(recipe), *_unknown_layers(recipe))
    if missing:
        return missing
    layers = recipe.model.layers or Layers()
    metrics = tuple(_measure(metric) for metric in recipe.metrics)
    return Plan(
        recipe=recipe,
        summary=summary,
        data=_data(recipe),
        model=build_model(recipe.model, recipe),
        metrics=metrics,
        watch=_watch(recipe, metrics),
        phases=_phases(recipe, layers),
    )


def _missing(recipe: Recipe) -> list[NotBuilt]:
    found: list[NotBuilt] = []
    if recipe.data.tokenize is not None:
        found.append(NotBuilt("training on texts", recipe.data.source.origin))
    for phase in recipe.phases:
        for technique in phase.techniques:
            match technique:
                case Technique(call) if not _is_built(technique):
                    found.append(NotBuilt(f"`{call.card.name}`", call.origin))
        if phase.optimizer.invocation.card.optimizer.needs_closure and recipe.train.value("accumulate") != 1:
            found.append(NotBuilt("`accumulate` with lbfgs", recipe.train.origin))
    found += [NotBuilt("`sweep`", sweep.origin) for sweep in recipe.sweeps]
    return list({(one.what, str(one.origin)): one for one in found}.values())


def _is_built(technique: AnyTechnique) -> bool:
    if not isinstance(technique, Technique) or technique.invocation.card.technique.hooks:
        return True
    return bool(trained_words(technique)) or unfreezes_gradually(technique)  # freezing is all that they do


def _unknown_layers(recipe: Recipe) -> list[NotBuilt]:
    """What chooses layers, where these are known only when the program runs."""
    found: list[Origin] = []
    for phase in recipe.phases:
        for technique in phase.techniques:
            match technique:
                case Freeze(layers, _, origin) | Unfreeze(layers, _, origin) | Reinit(layers, _, origin):
                    found += [origin] if layers.parameters is None else []
                case Technique(call):
                    found += [call.origin] if _is_unknown(call, recipe) else []
        found += [group.origin for group in phase.optimizer.groups if group.layers.parameters is None]
    return [NotBuilt("choosing layers that are known only when the model or an `arg` is", origin) for origin in found]


def _is_unknown(call: Invocation, recipe: Recipe) -> bool:
    """Whether a technique is for certain layers and it is not known which."""
    settings = [s for s in call.settings if isinstance(s.value, Selection)]
    if any(setting.value.parameters is None for setting in settings):
        return True
    takes_layers = any("selector" in parameter.types for parameter in call.card.parameters)
    return recipe.model.layers is None and (takes_layers or not _has_hooks_alone(call))


def _has_hooks_alone(call: Invocation) -> bool:
    technique = Technique(call)
    return not trained_words(technique) and not unfreezes_gradually(technique)


# -- data


def _data(recipe: Recipe) -> ReadData:
    data = recipe.data
    assert data.train is not None
    assert data.eval is not None
    steps = (*data.train.stages, *data.eval.stages)
    is_own = data.source.card.kind == "user"
    return ReadData(
        source=data.source,
        split=data.split,
        redivide=isinstance(data.split.origin, Written),
        train=data.train.stages,
        eval=data.eval.stages,
        is_random=is_own or any(is_random(stage) or stage.card.kind == "user" for stage in steps),
        because_train=data.train.origin,
        because_eval=data.eval.origin,
    )


# -- metrics


def _measure(metric: Invocation) -> Measure:
    return Measure(metric_label(metric), metric, metric.card.metric.higher_is_better is False)


def _watch(recipe: Recipe, metrics: tuple[Measure, ...]) -> str:
    """The score that says which epoch was the best."""
    by = recipe.checkpoint.value("by")
    stop = recipe.phases[-1].early_stop
    if not isinstance(by, Score) and stop is not None:
        by = stop.value("score")
    return str(by) if isinstance(by, Score) else f"val.{metrics[0].label}"


# -- phases


def _phases(recipe: Recipe, layers: Layers) -> tuple[TrainPhase, ...]:
    found: list[TrainPhase] = []
    for phase in recipe.phases:
        was_frozen = bool(found) and bool(found[-1].freeze or found[-1].unfreeze_later)
        found.append(_phase(phase, recipe, layers, was_frozen))
    following = [_next_training(recipe.phases[at + 1 :]) for at in range(len(found))]
    asked_for = {name for phase in found for use in phase.techniques for name in remembered_by(use)}
    return tuple(
        replace(
            phase,
            is_last=phase is found[-1],
            is_remembered=phase.name in asked_for,
            gives_optimizer=next_one is not None and next_one.keeps_optimizer,
        )
        for phase, next_one in zip(found, following, strict=True)
    )


def _next_training(phases: Sequence[Phase]) -> Phase | None:
    """The first of some phases that trains, and does not only prepare the model."""
    return next((phase for phase in phases if phase.trains), None)


def _phase(phase: Phase, recipe: Recipe, layers: Layers, was_frozen: bool) -> TrainPhase:
    assert phase.freezing is not None  # `_unknown_layers` has refused the others
    hooks = {override.hook: override for override in phase.overrides}
    uses = {
        id(t): use_of(t.invocation, phase, recipe, layers)
        for t in phase.techniques
        if isinstance(t, Technique) and t.invocation.card.technique.hooks
    }
    prepared = [_preparation(t, uses, layers) for t in phase.techniques if isinstance(t, Reinit) or id(t) in uses]
    frozen = freeze_layers(phase, phase.freezing, layers)
    return TrainPhase(
        name=phase.name,
        epochs=phase.epochs,
        preparations=tuple(one for one in prepared if isinstance(one, Reinitialise) or "on_model" in one.hooks),
        trains=phase.trains,
        freeze=frozen,
        unfreeze_later=unfreeze_later(phase.freezing, layers),
        unfreezes_all=was_frozen and frozen is None,
        techniques=tuple(uses.values()),
        loss=phase.loss,
        optimizer=phase.optimizer.invocation,
        groups=parameter_groups(phase, layers),
        schedule=phase.schedule,
        steps_schedule_by=phase.schedule.card.schedule.stepped_by,
        early_stop=phase.early_stop,
        train_step=hooks.get("train_step"),
        eval_step=hooks.get("eval_step"),
        after_epoch=hooks.get("after_epoch"),
        is_last=False,
        is_remembered=False,
        precision=phase.precision,
        takes_optimizer=phase.keeps_optimizer,
        gives_optimizer=False,
        because=phase.origin,
    )


def _preparation(
    technique: AnyTechnique, uses: Mapping[int, UseTechnique], layers: Layers
) -> Reinitialise | UseTechnique:
    if isinstance(technique, Reinit):
        return Reinitialise(paths_of(technique.layers.parameters or (), layers), technique.how, technique.origin)
    return uses[id(technique)]
