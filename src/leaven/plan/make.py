"""From a checked recipe and the layers of its model to a plan. Pure: the same recipe and layers give the same plan."""

from dataclasses import dataclass, replace

from leaven.catalog.layers import Layers
from leaven.plan.paths import paths_of
from leaven.plan.plan import (
    BuildModel,
    Call,
    Chain,
    FileWeights,
    Hold,
    HubWeights,
    Measure,
    ParameterGroup,
    Plan,
    ReadData,
    Redraw,
    StarterWeights,
    TrainPhase,
    Weights,
)
from leaven.recipe.fitting import is_random
from leaven.recipe.recipe import (
    FitHead,
    Freeze,
    Invocation,
    KeepHead,
    Model,
    Origin,
    Phase,
    Recipe,
    Reinit,
    Score,
    Technique,
    Unfreeze,
    Written,
)
from leaven.recipe.scores import metric_label
from leaven.recipe.selectors import matching
from leaven.recipe.shapes import channels_through

BUILT_HOOKS = ("train_step", "eval_step", "after_epoch")
BUILT_TECHNIQUES = frozenset({"mixup", "cutmix", "ema"})
_STEPPED_BY = {"OneCycleLR": "step", "CyclicLR": "step", "ReduceLROnPlateau": "score"}


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A part of the language that this version can check but not yet run."""

    what: str
    origin: Origin


def make_plan(recipe: Recipe, layers: Layers | None, summary: str = "") -> Plan | tuple[NotBuilt, ...]:
    """The plan of a recipe; or what of it can't be run yet."""
    missing = tuple(_missing(recipe))
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
        model=_model(recipe.model, layers, recipe),
        metrics=metrics,
        watch=_watch(recipe, metrics),
        phases=_phases(recipe.phases, layers),
    )


def _missing(recipe: Recipe) -> list[NotBuilt]:
    found: list[NotBuilt] = []
    if recipe.data.tokenize is not None:
        found.append(NotBuilt("training on texts", recipe.data.source.origin))
    for phase in recipe.phases:
        for technique in phase.techniques:
            match technique:
                case Technique(call) if call.card.name not in BUILT_TECHNIQUES:
                    found.append(NotBuilt(f"`{call.card.name}`", call.origin))
                case Unfreeze(at=at, origin=origin) if at is not None:
                    found.append(NotBuilt("`unfreeze` in the middle of a phase", origin))
        for override in phase.overrides:
            if override.hook not in BUILT_HOOKS:
                found.append(NotBuilt(f"`override {override.hook}`", override.origin))
        if phase.optimizer.invocation.card.target.endswith(".LBFGS") and recipe.train.value("accumulate") != 1:
            found.append(NotBuilt("`accumulate` with lbfgs", recipe.train.origin))
        if phase.keeps_optimizer:
            found.append(NotBuilt("`keep=optimizer`", phase.origin))
    found += [NotBuilt("`sweep`", sweep.origin) for sweep in recipe.sweeps]
    return list({(one.what, str(one.origin)): one for one in found}.values())


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


# -- the model


def _model(model: Model, layers: Layers, recipe: Recipe) -> BuildModel:
    origin = model.origin
    said = model.chosen_weights.origin if model.chosen_weights is not None else origin
    weights = _weights(model)
    if isinstance(model.source, tuple):
        stages = channels_through(model.source, recipe.data.channels, recipe.data.size)
        return BuildModel(Chain(stages), weights, (), None, origin, said)
    source = _call(model.source)
    match model.head:
        case KeepHead():
            is_as_published = isinstance(weights, HubWeights | StarterWeights)
            source = replace(source, classes_by=None) if is_as_published else source
            return BuildModel(source, weights, (), None, origin, said)
        case FitHead(path):
            replaced = path or (_plain_head(layers) if weights is not None and source.library != "user" else None)
    if replaced is None:
        return BuildModel(source, weights, layers.head if weights is not None else (), None, origin, said)
    new = (replaced,) if isinstance(weights, FileWeights) else ()  # the file may be of other classes
    return BuildModel(replace(source, classes_by=None), weights, new, replaced, origin, said)


def _call(source: Invocation) -> Call:
    card = source.card
    if card.kind == "user":
        by = next((p.name for p in card.parameters if p.name in ("classes", "num_classes")), None)
        return Call(source, "user", card.name, by)
    if card.facts.get("timm_name"):
        return Call(source, "timm", str(card.facts["timm_name"]), "num_classes")
    return Call(source, "torchvision", card.target, "num_classes")


def _plain_head(layers: Layers) -> str | None:
    """The one layer that makes the outputs, if it is a linear one. It is then drawn as torch draws linear layers: how
    libraries draw the head of a whole new net can be far too large for features that are trained already."""
    types = {module.path: module.type for module in layers.modules}
    is_plain = len(layers.head) == 1 and types.get(layers.head[0]) in ("Linear", "Conv2d")
    return layers.head[0] if is_plain else None


def _weights(model: Model) -> Weights | None:
    if model.weights is not None:
        assert model.chosen_weights is not None
        return FileWeights(model.chosen_weights)
    if not model.pretrained:
        return None
    assert isinstance(model.source, Invocation)
    facts = model.source.card.facts
    if facts.get("weights_file"):
        return StarterWeights(str(facts["package"]))
    return HubWeights(facts.get("tag"))


# -- metrics


def _measure(metric: Invocation) -> Measure:
    return Measure(metric_label(metric), metric, metric.card.facts.get("higher_is_better") is False)


def _watch(recipe: Recipe, metrics: tuple[Measure, ...]) -> str:
    """The score that says which epoch was the best."""
    by = recipe.checkpoint.value("by")
    return str(by) if isinstance(by, Score) else f"val.{metrics[0].label}"


# -- phases


def _phases(phases: tuple[Phase, ...], layers: Layers) -> tuple[TrainPhase, ...]:
    found: list[TrainPhase] = []
    for phase in phases:
        was_held = bool(found) and found[-1].hold is not None
        found.append(_phase(phase, layers, was_held, is_last=phase is phases[-1]))
    return tuple(found)


def _phase(phase: Phase, layers: Layers, was_held: bool, is_last: bool) -> TrainPhase:
    hold = _hold(phase, layers)
    hooks = {override.hook: override for override in phase.overrides}
    techniques = tuple(t.invocation for t in phase.techniques if isinstance(t, Technique))
    return TrainPhase(
        name=phase.name,
        epochs=phase.epochs,
        redraws=tuple(
            Redraw(paths_of(matching(t.layers, layers), layers), t.how, t.origin)
            for t in phase.techniques
            if isinstance(t, Reinit)
        ),
        hold=hold,
        lifts=was_held and hold is None,
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
        is_last=is_last,
        because=phase.origin,
    )


def _hold(phase: Phase, layers: Layers) -> Hold | None:
    """What keeps still after every `freeze` and `unfreeze` of the phase, in their order."""
    still: frozenset[str] = frozenset()
    norms, because = "still", []
    for technique in phase.techniques:
        match technique:
            case Freeze(selector, how, origin):
                still, norms = still | matching(selector, layers), how
                because.append(origin)
            case Unfreeze(selector, _, origin):
                still -= matching(selector, layers)
                because.append(origin)
    if not still:
        return None
    moving = frozenset(p.name for p in layers.parameters) - still
    held, free = paths_of(still, layers), paths_of(moving, layers)
    is_all_but = len(free) < len(held)
    count = sum(p.count for p in layers.parameters if p.name in moving)
    total = sum(p.count for p in layers.parameters)
    return Hold(free if is_all_but else held, is_all_but, norms, count, total, tuple(because))


def _groups(phase: Phase, layers: Layers) -> tuple[ParameterGroup, ...]:
    """Each parameter belongs to the first group that names it."""
    taken: frozenset[str] = frozenset()
    groups = []
    for group in phase.optimizer.groups:
        chosen = matching(group.layers, layers) - taken
        taken |= chosen
        groups.append(ParameterGroup(paths_of(chosen, layers), group.settings, group.origin))
    return tuple(groups)


def _stepped_by(schedule: Invocation) -> str:
    if schedule.card.facts.get("needs_score"):
        return "score"
    if schedule.card.source == "leaven" and schedule.card.kind == "schedule":
        return "step"
    return _STEPPED_BY.get(schedule.card.target.rpartition(".")[2], "epoch")
