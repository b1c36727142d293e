"""From a checked recipe and the layers of its model to a plan. Pure: the same recipe and layers give the same plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leaven.binding.scores import metric_label
from leaven.catalog.layers import Layers
from leaven.catalog.selectors import matching
from leaven.catalog.values import Invocation, Origin, Quantity, Score, Written
from leaven.plan.building import build_model
from leaven.plan.holding import stillness_of
from leaven.plan.paths import paths_of
from leaven.plan.plan import (
    Measure,
    ParameterGroup,
    Plan,
    ReadData,
    Redraw,
    TrainPhase,
    UseTechnique,
)
from leaven.plan.techniques import remembered_by, use_of
from leaven.recipe.fitting import is_random
from leaven.recipe.recipe import AnyTechnique, FitHead, Freeze, Phase, Recipe, Reinit, Technique, Unfreeze
from leaven.recipe.stillness import is_adapter, words_that_move

BUILT_HOOKS = ("train_step", "eval_step", "after_epoch")
_STEPPED_BY = {"OneCycleLR": "step", "CyclicLR": "step", "ReduceLROnPlateau": "score"}


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A part of the language that this version can check but not yet run."""

    what: str
    origin: Origin


def make_plan(recipe: Recipe, layers: Layers | None, summary: str = "") -> Plan | tuple[NotBuilt, ...]:
    """The plan of a recipe; or what of it can't be run yet."""
    missing = (*_missing(recipe), *(_unknown_layers(recipe) if layers is None else ()))
    if missing:
        return missing
    layers = layers or Layers()
    if isinstance(recipe.model.head, FitHead) and recipe.data.classes:
        layers = layers.fitted(recipe.data.classes)
    metrics = tuple(_measure(metric) for metric in recipe.metrics)
    return Plan(
        recipe=recipe,
        summary=summary,
        data=_data(recipe),
        model=build_model(recipe.model, layers, recipe),
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
                case Technique(call) if not call.card.facts.get("hooks") and not words_that_move(technique):
                    found.append(NotBuilt(f"`{call.card.name}`", call.origin))
        for override in phase.overrides:
            if override.hook not in BUILT_HOOKS:
                found.append(NotBuilt(f"`override {override.hook}`", override.origin))
        if phase.optimizer.invocation.card.target.endswith(".LBFGS") and recipe.train.value("accumulate") != 1:
            found.append(NotBuilt("`accumulate` with lbfgs", recipe.train.origin))
    found += [NotBuilt("`sweep`", sweep.origin) for sweep in recipe.sweeps]
    return list({(one.what, str(one.origin)): one for one in found}.values())


def _unknown_layers(recipe: Recipe) -> list[NotBuilt]:
    """What chooses layers, which is in vain where they are not known."""
    found: list[Origin] = []
    for phase in recipe.phases:
        found += [t.origin for t in phase.techniques if isinstance(t, Freeze | Unfreeze | Reinit)]
        found += [group.origin for group in phase.optimizer.groups]
        calls = [t.invocation for t in phase.techniques if isinstance(t, Technique)]
        found += [call.origin for call in calls if any("selector" in p.types for p in call.card.parameters)]
    return [NotBuilt("choosing layers of a model of which some parts are known only when it runs", o) for o in found]


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
    return Measure(metric_label(metric), metric, metric.card.facts.get("higher_is_better") is False)


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
    adapters: list[Technique] = []  # which stay in the phases after theirs
    for phase in recipe.phases:
        was_held = bool(found) and bool(found[-1].hold or found[-1].wakes)
        found.append(_phase(phase, adapters, recipe, layers, was_held))
        adapters += [t for t in phase.techniques if isinstance(t, Technique) and is_adapter(t)]
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
    """The first of some phases that trains, and does not only prepare."""
    return next((phase for phase in phases if phase.epochs.value != Quantity(0, "epochs")), None)


def _phase(phase: Phase, lasting: list[Technique], recipe: Recipe, layers: Layers, was_held: bool) -> TrainPhase:
    still = stillness_of(phase, lasting, layers)
    hooks = {override.hook: override for override in phase.overrides}
    uses = {
        id(t): use_of(t.invocation, phase, recipe, layers, still.parameters)
        for t in phase.techniques
        if isinstance(t, Technique) and t.invocation.card.facts.get("hooks")
    }
    prepared = [_preparation(t, uses, layers) for t in phase.techniques if isinstance(t, Reinit) or id(t) in uses]
    techniques = tuple(uses.values())
    return TrainPhase(
        name=phase.name,
        epochs=phase.epochs,
        preparations=tuple(one for one in prepared if isinstance(one, Redraw) or "on_model" in one.hooks),
        hold=still.hold,
        wakes=still.wakes,
        lifts=was_held and still.hold is None,
        techniques=techniques,
        loss=phase.loss,
        optimizer=phase.optimizer.invocation,
        groups=_groups(phase, layers),
        schedule=phase.schedule,
        steps_schedule_by=_stepped_by(phase.schedule),
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


def _preparation(technique: AnyTechnique, uses: Mapping[int, UseTechnique], layers: Layers) -> Redraw | UseTechnique:
    if isinstance(technique, Reinit):
        return Redraw(paths_of(matching(technique.layers, layers), layers), technique.how, technique.origin)
    return uses[id(technique)]


def _groups(phase: Phase, layers: Layers) -> tuple[ParameterGroup, ...]:
    """Each parameter belongs to the last group that names it."""
    taken: frozenset[str] = frozenset()
    groups = []
    for group in reversed(phase.optimizer.groups):
        chosen = matching(group.layers, layers) - taken
        taken |= chosen
        if chosen:
            groups.append(ParameterGroup(paths_of(chosen, layers), group.settings, group.origin))
    return tuple(reversed(groups))


def _stepped_by(schedule: Invocation) -> str:
    if schedule.card.facts.get("needs_score"):
        return "score"
    if schedule.card.source == "leaven" and schedule.card.kind == "schedule":
        return "step"
    return _STEPPED_BY.get(schedule.card.target.rpartition(".")[2], "epoch")
